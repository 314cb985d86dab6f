"""Today's vLLM compiled: `vllm_v1.V1Scheduler` over the tables of the compiled fleet, step for step.

Requests that decode advance together by a counter of their engine (`tables.REQUEST`). A step looks only at
those whose next token begins a block, fills one that others may find, moves one behind a window, or is their last, and
at those that do not decode yet: a ring with a list for each remainder of steps by the block size says who they are.
Only where the token budget does not reach for all are all looked at.
"""

from __future__ import annotations

from typing import Any

from .....jit import inner
from ..rules import BARE
from .blocks import found_prefix, let_go, publish, share_found, take
from .tables import DECODES, DONE, RUNS, WAITS, FleetRules, Tables
from .v1_states import after_token, alone, note_run, preempt, starts, stops, victim
from .waiting import dequeue

__all__ = ["admit", "complete", "decide", "run_first", "settle"]

_inline: Any = inner(**BARE)


@_inline
def _all_alone(s: Tables, e: int) -> int:
    """Look at every request that runs and has a token to compute, none by the shared counter; returns their number."""
    n, r = 0, s.engine[e].first
    while r >= 0:
        if s.request[r].state == DECODES:
            alone(s, e, r)
        if s.request[r].state == RUNS:
            s.todo[n] = r
            n += 1
        r = s.request[r].behind
    return n


@_inline
def _blocks_wanted(x: FleetRules, s: Tables, e: int, n: int) -> int:
    """Most blocks that a step may take for the first `n` to look at."""
    total = 0
    for i in range(n):
        q = s.request[s.todo[i]]
        if q.state == DECODES:
            end = q.base + s.engine[e].decided
        else:
            end = min(q.length + q.awaited, q.computed + (s.engine[e].most if s.engine[e].most else x.budget))
        total += max(0, -(-end // x.size) - q.blocks)
    return x.groups * total


@_inline
def _to_look_at(x: FleetRules, s: Tables, e: int) -> int:
    """Collect the requests that this step must look at, in the order in which they run; returns their number."""
    g, most = s.engine[e], s.engine[e].most if s.engine[e].most else x.budget
    asked, wide, chunk, many = g.decoding, -1, 0, 0
    for i in range(g.looks):
        q = s.request[s.looked[e, i]]
        tokens = min(q.length + q.awaited - q.computed, most)
        asked += tokens
        if tokens > 1:
            wide, chunk, many = s.looked[e, i], tokens, many + 1
    # Requests need not be looked at in order if the budget suffices for all, or if only the last of them gets less.
    if asked > x.budget and not (many == 1 and wide == g.last and asked - chunk <= x.budget):
        return _all_alone(s, e)
    n = g.looks
    for i in range(n):
        s.todo[i] = s.looked[e, i]
    slot = g.decided % x.size
    r = s.ring[e, slot]
    s.ring[e, slot] = -1
    while r >= 0:
        q = s.request[r]
        i = n
        while i > 0 and s.request[s.todo[i - 1]].stamp > q.stamp:
            s.todo[i] = s.todo[i - 1]
            i -= 1
        s.todo[i] = r
        q.slot = -1
        n += 1
        r = q.after
    if x.priority and x.deep > 1 and _blocks_wanted(x, s, e, n) > g.free:
        return _all_alone(s, e)
    return n


@_inline
def _serve_running(x: FleetRules, s: Tables, e: int, n: int) -> tuple[int, int, int]:
    """Tokens for those that run: requests chosen one by one, what they take of the budget, requests preempted."""
    g, most = s.engine[e], s.engine[e].most if s.engine[e].most else x.budget
    m = used = preempted = 0
    for i in range(n):
        r = s.todo[i]
        q = s.request[r]
        if q.state == WAITS:
            continue
        if q.state == DECODES:
            total = q.base + g.decided
            tokens, computed = 1, total - 1
            known = total - g.decided + max(g.completed, q.joined - 1)
        else:
            left = x.budget - g.decoding - used
            if left <= 0:
                break
            computed, known = q.computed, q.length
            tokens = known + q.awaited - computed
            if tokens > 1:
                tokens = min(tokens, most, left)
        if x.near:
            let_go(x, s, e, r, computed)
        need = max(0, -(-min(computed + tokens, x.max_len) // x.size) - q.blocks)
        fits = True
        while x.groups * need > g.free and fits:
            v = victim(x, s, e)
            p = s.request[v]
            if p.mark >= 0:
                used -= s.chosen[1, p.mark]
                s.chosen[1, p.mark] = 0
                p.mark = -1
            preempt(x, s, e, v)
            preempted += 1
            fits = v != r
        if not fits:
            if x.priority:
                continue
            break
        if need:
            take(x, s, e, r, need)
            g.held += need
        if need or tokens > 1 or (computed + 1) % x.size == 0:
            publish(x, s, e, r, min(computed + tokens, known))
        if q.state == RUNS:
            q.mark, s.chosen[0, m], s.chosen[1, m] = m, r, tokens
            m += 1
            used += tokens
    return m, used, preempted


@_inline
def _whole(x: FleetRules, need: int, found: int) -> int:
    """Blocks of all groups of layers that must be free for a prompt that needs so many of each, some of them found."""
    return (x.groups - x.near) * max(0, need - found) + x.near * max(0, min(need, x.most) - found)


@_inline
def admit(x: FleetRules, s: Tables, e: int, m: int, budget: int, now: float) -> int:
    """Waiting requests, in order, until one does not fit: how many are chosen one by one by now."""
    g, size = s.engine[e], x.size
    while g.root >= 0 and budget > 0 and g.running < x.max_seqs:
        r = g.root
        q = s.request[r]
        found = free = 0
        if x.caching:
            found, free = found_prefix(x, s, e, r, (q.length - 1) // size)
        tokens = q.length - found * size
        if 0 < g.most < tokens:
            tokens = g.most
        if not x.chunked and tokens > budget:
            break
        tokens = min(tokens, budget)
        room = g.free - (x.watermark if g.running else 0)
        if x.whole and _whole(x, -(-min(q.length, x.max_len) // size), found) + free > room:
            break
        end = found * size + tokens
        need = max(0, -(-min(end, x.max_len) // size) - found)
        if x.groups * need + free > room:
            break
        dequeue(s.request, s.engine, e, r)
        if x.caching:
            share_found(x, s, e, r, found)
        if need:
            take(x, s, e, r, need)
        publish(x, s, e, r, min(end, q.length))
        q.computed = found * size
        g.held += q.blocks
        g.computed += q.computed
        starts(s, e, r)
        if not q.resumed:
            s.times[1, r] = now
            s.counts[1, r] = found * size
        q.mark, s.chosen[0, m], s.chosen[1, m] = m, r, tokens
        m += 1
        budget -= tokens
    return m


@_inline
def _computes(x: FleetRules, s: Tables, e: int, r: int, runs: Any, n_runs: int) -> tuple[bool, bool, int]:
    """A request's own tokens are computed: whether that is a decode, whether it is given a token, runs of tokens."""
    g, q = s.engine[e], s.request[r]
    tokens = s.chosen[1, q.mark]
    q.mark = -1
    q.computed += tokens
    g.computed += tokens
    decode, token = tokens == 1 and q.computed > 1, q.computed >= q.length + q.awaited
    if token:
        if q.begin < 0 or q.last + 1 < g.iteration:
            n_runs = note_run(q, r, runs, n_runs)
            q.begin = g.iteration
        q.awaited += 1
        total = q.length + q.awaited
        q.base, q.joined, q.owed, q.state = total - g.decided, g.decided - q.awaited + 1, 0, DECODES
        g.decoding += 1
        g.context += total
        after_token(x, s, e, r, total)
    return decode, token, n_runs


@_inline
def run_first(x: FleetRules, s: Tables, e: int) -> tuple[int, int, int, int]:
    """A step begins with those that run: how many it looks at and chooses one by one, what these take of the budget,
    requests preempted."""
    g = s.engine[e]
    g.most = x.threshold if x.alone or g.running + g.waiting > 1 else 0
    n = _to_look_at(x, s, e)
    m, used, preempted = _serve_running(x, s, e, n)
    return n, m, used, preempted


@_inline
def settle(
    x: FleetRules, s: Tables, e: int, n: int, first: int, m: int, runs: Any, n_runs: int
) -> tuple[int, int, int, int, int, int]:
    """A step is decided: all chosen tokens are computed. The first `first` of `m` chosen ones ran before.

    Returns
    -------
    tokens, chunks, decodes, context, outputs : int
        As `decide`.
    n_runs : int
        Runs of tokens noted.
    """
    g = s.engine[e]
    tokens = g.decoding
    for i in range(m):
        tokens += s.chosen[1, i]
    chunks, decodes, context, outputs = 0, g.decoding, g.context, g.decoding
    if tokens:
        g.decided += 1
        g.context += g.decoding
        g.computed += g.decoding
        s.final[e, g.decided & 1, 0] = s.owe[e, g.decided & 1, 0] = 0
    g.looks = 0
    for i in range(n + m - first):
        r = s.todo[i] if i < n else s.chosen[0, first + i - n]
        q = s.request[r]
        if q.state == DECODES:
            after_token(x, s, e, r, q.base + g.decided)
        elif q.state == RUNS and q.mark >= 0:
            part, before = s.chosen[1, q.mark], q.computed
            decode, token, n_runs = _computes(x, s, e, r, runs, n_runs)
            if decode:
                decodes += 1
                context += before + 1
            else:
                s.new[chunks], s.old[chunks] = part, before
                chunks += 1
            if token:
                outputs += 1
        if q.state == RUNS:
            s.looked[e, g.looks] = r
            g.looks += 1
    return tokens, chunks, decodes, context, outputs, n_runs


@_inline
def decide(
    x: FleetRules, s: Tables, e: int, now: float, runs: Any, n_runs: int
) -> tuple[int, int, int, int, int, int, int]:
    """Decide a step of an engine.

    Returns
    -------
    tokens, chunks, decodes, context, outputs : int
        The iteration, its chunks in ``s.new`` and ``s.old``; no tokens: nothing to compute.
    preempted, n_runs : int
        Requests preempted; runs of tokens noted.
    """
    n, first, used, preempted = run_first(x, s, e)
    m = first
    if preempted == 0:
        m = admit(x, s, e, m, x.budget - s.engine[e].decoding - used, now)
    tokens, chunks, decodes, context, outputs, n_runs = settle(x, s, e, n, first, m, runs, n_runs)
    return tokens, chunks, decodes, context, outputs, preempted, n_runs


@_inline
def complete(x: FleetRules, s: Tables, e: int, now: float, runs: Any, n_runs: int) -> int:
    """The earliest step under way ends: its tokens appear. Who is done is in ``s.final``; returns the runs noted."""
    g = s.engine[e]
    g.completed += 1
    final, owe = s.final[e, g.completed & 1], s.owe[e, g.completed & 1]
    for i in range(1, final[0] + 1):
        r = final[i]
        q = s.request[r]
        if q.state == WAITS:  # preempted since
            dequeue(s.request, s.engine, e, r)
        else:
            publish(x, s, e, r, q.computed)
            stops(x, s, e, r)
        n_runs = note_run(q, r, runs, n_runs)
        q.state, s.times[2, r] = DONE, now
    for i in range(1, owe[0] + 1):
        r = owe[i]
        q = s.request[r]
        if q.owed:
            q.owed = 0
            q.length += 1
            q.awaited -= 1
            if q.state == RUNS:
                publish(x, s, e, r, q.computed - q.awaited)
    return n_runs
