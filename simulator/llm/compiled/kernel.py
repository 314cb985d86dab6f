"""The compiled loop of LLM serving: one engine, one pass over its iterations, O(1) work in an iteration without events.

Sequences that decode advance together, so nothing is kept per sequence and token. With g the number of decode steps so
far, a sequence that joined with L tokens at step g has ``base = L - g``: it always has ``base + g`` tokens. Then

- blocks: it needs a new one when ``base + g - 1`` is a multiple of the block size; `count` holds how many have each
  remainder, so a step's need of blocks is one look-up;
- finishes: it is done when ``base + g`` reaches its target; `due` holds a linked list for each step (a ring);
- what a step reads is `context`, the sum of all lengths: it grows by their number.

Only where blocks or the token budget are short is the list of running requests gone through, as the policy does it.

The loop allocates nothing: it is given its tables (`desk.Desk`), and where one of them is full it returns, and goes on
from its counters once that table is wider. What allocates takes numba longest to compile.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....jit import kernel
from .lists import append, enter, leave, note_run, remove, taken
from .rules import LOOP, blocks_of, seconds_of
from .times import varied

__all__ = ["DONE", "FULL", "STOPPED", "UNKNOWN", "advance"]

DONE, STOPPED, UNKNOWN, FULL = range(4)
"""How the loop returned: nothing is left; the policy stands still or a cost is no time; what happens is not compiled;
a table is full."""


@kernel(**LOOP)
def advance(x: Any, price: Any, d: Any, now: float, counters: Any) -> Any:
    """Go on from some time until nothing is left, or a table is full: status, time, counters."""
    kind, line, grid, top = price
    (
        arrival, target, times, counts, count, due, after, ahead, bases, links, ends, length, computed, first,
        decoding, back, new, before, joins, clock, state, runs,
    ) = d  # fmt: skip
    (
        it, n_runs, n_back, head, arrived, running, partial, decodes, context, filled, carried, steps, phase, slot,
        free, stalled, known, began,
    ) = counters  # fmt: skip
    # filled: tokens with a slot of those that do not decode; phase: which remainder needs a block now, -steps % size;
    # slot: steps % len(due); began: `it` of the first iteration
    n, size = len(arrival), x.size
    seqs = len(new) - 1
    b = (count, due, after, ahead, bases)
    status = DONE
    while True:
        if (
            n_runs + 3 * seqs + 4 > runs.shape[1] or it == clock.shape[1]
        ):  # an iteration notes 2 * seqs + 4, the end seqs
            status = FULL
            break
        while arrived < known and arrival[arrived] <= now:
            arrived += 1
        if running == 0 and n_back + arrived - head == 0:
            if arrived >= known:
                break
            now = arrival[arrived]
            continue
        if now >= x.until:
            break
        chunks = n_joins = preempted = ignored = 0
        extra = extra_context = starved = starved_context = 0  # chunks that are decodes; decodes without budget
        budget, step = x.budget, True
        most = x.threshold if x.alone or running + n_back + arrived - head > 1 else 0
        if x.paper:
            widest = together = 0
            while n_back + arrived - head > 0:
                r = back[n_back - 1] if n_back else head
                need = blocks_of(length[r], size)
                if length[r] > x.limit or x.pool - need < x.watermark:
                    n_back, head = taken(n_back, head)
                    ignored, counts[1, r] = ignored + 1, 1
                    if x.concurrency and known < n:
                        arrival[known] = now
                        known += 1
                    continue
                if free - need < x.watermark:
                    break
                most = max(widest, length[r])
                area = (chunks + 1) * most
                if area > x.budget or area - together - length[r] > x.paddings or running >= x.max_seqs:
                    break
                widest, together = most, together + length[r]
                n_back, head = taken(n_back, head)
                free -= need
                computed[r] = length[r]
                filled += length[r]
                append(r, links, ends)
                running += 1
                if times[0, r] != times[0, r]:  # not a number: for the first time
                    times[0, r] = now
                new[chunks], before[chunks], joins[n_joins] = length[r], 0, r
                chunks += 1
                n_joins += 1
            if x.padded:
                for j in range(chunks):
                    new[j] = widest
            step = chunks == 0 and ignored == 0
        need = count[phase]
        if step:
            r, fits, room = ends[1], True, budget - decodes
            if x.paper:
                scan = free - need < 1
            else:
                if partial and room >= 0:  # the chunk of the last request, if it is the only one
                    take = min(length[r] - computed[r], most if most else budget, room)
                    need += blocks_of(computed[r] + take, size) - blocks_of(computed[r], size)
                scan = room < 0 or need > free or partial > 1 or (partial == 1 and decoding[r])
            scan = scan and running > 0
            if not scan:
                free, budget = free - need, room
            r = ends[0] if scan else (ends[1] if partial else -1)
            while r >= 0 and (budget > 0 or x.paper):
                if decoding[r]:
                    take, need = 1, 1 if (bases[r] - 1 + steps) % size == 0 else 0
                else:
                    take = min(length[r] - computed[r], most if most else x.budget, budget)
                    need = blocks_of(computed[r] + take, size) - blocks_of(computed[r], size)
                while scan and (free < 1 if x.paper else need > free):
                    v = ends[1]
                    remove(v, links, ends)
                    running -= 1
                    if decoding[v]:
                        n_runs = note_run(v, first, it - 1, runs, n_runs)
                        leave(v, target[v], size, b)
                        length[v], computed[v], decoding[v] = bases[v] + steps, bases[v] + steps - 1, False
                        decodes, context = decodes - 1, context - length[v]
                    else:
                        partial -= 1
                        filled -= computed[v]
                    free += blocks_of(computed[v], size)
                    computed[v] = 0
                    back[n_back] = v
                    n_back += 1
                    preempted += 1
                    counts[0, v] += 1
                    fits = v != r
                    if not fits:
                        break
                if not fits:
                    break
                if scan:
                    free -= need
                budget -= take
                if not decoding[r]:
                    if take == 1 and computed[r] > 0:
                        extra += 1
                        extra_context += computed[r] + 1
                    else:
                        new[chunks], before[chunks] = take, computed[r]
                        chunks += 1
                    computed[r] += take
                    filled += take
                    if computed[r] == length[r]:
                        joins[n_joins] = r
                        n_joins += 1
                r = links[1, r]
            if scan and fits and not x.paper:
                while r >= 0:  # no budget is left: what decodes stands still for a step
                    if decoding[r]:
                        n_runs = note_run(r, first, it - 1, runs, n_runs)
                        first[r] = it + 1
                        starved += 1
                        starved_context += bases[r] + steps
                        leave(r, target[r], size, b)
                        enter(r, bases[r] - 1, target[r], size, b)
                    r = links[1, r]
            if preempted and x.fragile:
                status = UNKNOWN
                break
        if not x.paper and preempted == 0:
            while budget > 0 and running < x.max_seqs and n_back + arrived - head > 0:
                r = back[n_back - 1] if n_back else head
                take = length[r]
                if 0 < most < take:
                    take = most
                if not x.chunked and take > budget:
                    break
                take = min(take, budget)
                room = free - (x.watermark if running else 0)
                if x.whole and blocks_of(min(length[r], x.max_len), size) > room:
                    break
                need = blocks_of(take, size)
                if need > room:
                    break
                n_back, head = taken(n_back, head)
                free -= need
                append(r, links, ends)
                running += 1
                if times[0, r] != times[0, r]:  # not a number: for the first time
                    times[0, r] = now
                new[chunks], before[chunks] = take, 0
                chunks += 1
                budget -= take
                computed[r] = take
                filled += take
                if take == length[r]:
                    joins[n_joins] = r
                    n_joins += 1
                partial += 1
        moving = decodes - starved if step else 0
        if moving + extra + chunks == 0:
            carried += preempted
            if stalled or (ignored == 0 and preempted == 0):
                status = STOPPED
                break
            stalled = 1 if ignored == 0 else 0
            continue
        read = context - starved_context if step else 0
        seconds = seconds_of(
            kind, line, grid, moving + extra, read + extra_context, new, before, chunks, moving + n_joins
        )
        seconds = varied(top, seconds, 0, now, it - began, moving + extra, chunks)
        if not (seconds > 0 and seconds < np.inf):
            status = STOPPED
            break
        stalled, prefill = 0, 0
        for j in range(chunks):
            prefill += new[j]
        if now + seconds >= x.until:
            break
        used = (x.pool - free) * size
        clock[0, it], clock[1, it] = now, now + seconds
        state[0, it], state[1, it] = running, n_back + arrived - head
        state[2, it], state[3, it], state[4, it] = prefill, moving + extra, preempted + carried
        state[5, it] = used
        # A sequence that stood still has no slot for its newest token yet, or one that it did not fill.
        state[6, it] = used - filled - context + (starved if step else need)
        carried = 0
        now += seconds
        if not step:
            r = ends[0]
            while r >= 0:  # prompts interrupt what decodes
                if decoding[r]:
                    n_runs = note_run(r, first, it - 1, runs, n_runs)
                    first[r] = it + 1
                r = links[1, r]
        else:
            context += moving
            steps += 1
            phase = phase - 1 if phase else size - 1
            slot = slot + 1 if slot + 1 < len(due) else 0
            r = due[slot]
            due[slot] = -1
            while r >= 0:
                n_runs = note_run(r, first, it, runs, n_runs)
                times[2, r] = now
                free += blocks_of(target[r] - 1, size)
                count[(bases[r] - 1) % size] -= 1
                decodes -= 1
                context -= target[r]
                remove(r, links, ends)
                running -= 1
                if x.concurrency and known < n:
                    arrival[known] = now
                    known += 1
                r = after[r]
        for j in range(n_joins):
            r = joins[j]
            filled -= computed[r]
            length[r] += 1
            first[r] = it
            if not x.paper:
                partial -= 1
            if times[1, r] != times[1, r]:
                times[1, r] = now
            if length[r] >= target[r]:
                n_runs = note_run(r, first, it, runs, n_runs)
                times[2, r] = now
                free += blocks_of(computed[r], size)
                remove(r, links, ends)
                running -= 1
                if x.concurrency and known < n:
                    arrival[known] = now
                    known += 1
            else:
                decoding[r] = True
                decodes += 1
                context += length[r]
                enter(r, length[r] - steps, target[r], size, b)
        it += 1
    if status == DONE:
        r = ends[0]
        while r >= 0:
            if decoding[r]:
                n_runs = note_run(r, first, it - 1, runs, n_runs)
            r = links[1, r]
    counters = (
        it, n_runs, n_back, head, arrived, running, partial, decodes, context, filled, carried, steps, phase, slot,
        free, stalled, known, began,
    )  # fmt: skip
    return status, now, counters
