"""vLLM 0.2 and the paper's compiled, group by group: `vllm02` and `vllm_paper` on one engine, step for step."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....jit import inner, kernel
from ..kernel import DONE, FULL, STOPPED
from ..rules import BARE, LOOP, seconds_of
from ..times import varied
from .beams import survive
from .memory import append, free, insert, users
from .tables import GroupRules, GroupTables

__all__ = ["serve_engine"]

_inline: Any = inner(**BARE)


@_inline
def _gone(x: GroupRules, s: GroupTables, now: float) -> None:
    """A request is done: in a closed loop the next one is sent."""
    g = s.engine[0]
    if x.concurrency and g.known < len(s.arrival):
        s.arrival[g.known] = now
        g.known += 1


@_inline
def _admit(x: GroupRules, s: GroupTables, now: float, decodes: int) -> tuple[int, int]:
    """Waiting prompts, in order, until one does not fit beside `decodes`: how many are processed, how many ignored."""
    g = s.engine[0]
    chunks = ignored = widest = together = 0
    while g.back + g.arrived - g.head > 0:
        r = s.back[g.back - 1] if g.back else g.head
        q = s.group[r]
        need = -(-q.length // x.size) - q.full
        rest = q.length - q.before
        most = max(widest, rest)
        never = q.length > x.limit or x.pool - x.reserved - need < x.watermark
        if not never:
            if g.free - need < x.watermark:
                break
            area = decodes + together + rest if x.mixed else (chunks + 1) * most
            if area > x.budget or (not x.mixed and area - together - rest > x.paddings):
                break
            if g.wide + q.wide > x.max_seqs:
                break
        if g.back:
            g.back -= 1
        else:
            g.head += 1
        if never:
            ignored += 1
            s.counts[1, r] = 1
            _gone(x, s, now)
            continue
        widest, together = most, together + rest
        g.free -= need
        users(s, r, 1)
        q.held, q.columns, q.solid, q.there, q.last = need, need + q.full, need + q.full, 1, 1
        insert(s.running, g.running, r)
        g.running += 1
        g.wide += q.wide
        if np.isnan(s.times[0, r]):
            s.times[0, r] = now
        s.counts[2, r] = q.before
        s.new[chunks], s.old[chunks], q.mark = rest, q.before, g.rows
        chunks += 1
    if x.padded:
        for i in range(chunks):
            s.new[i] = widest
    return chunks, ignored


@_inline
def _make_room(x: GroupRules, s: GroupTables) -> tuple[int, int]:
    """A token for every sequence that runs; the newest requests are preempted where blocks run out: how many, and
    blocks moved to the host; -1 where it has no room."""
    g = s.engine[0]
    n, i, preempted, moved = g.running, 0, 0, 0
    while i < n:
        r = s.running[i]
        while s.group[r].there > g.free and n > i:
            n -= 1
            v = s.running[n]
            q = s.group[v]
            preempted += 1
            s.counts[0, v] += 1
            g.wide -= q.wide
            if q.wide == 1 and not x.swap:
                free(s, v)
                s.back[g.back] = v
                g.back += 1
                continue
            if q.held > g.host:
                return preempted, -1
            g.host -= q.held
            g.free += q.held
            moved += q.held
            insert(s.swapped, g.swapped, v)
            g.swapped += 1
        if n > i:
            append(x, s, r)
        i += 1
    g.running = n
    return preempted, moved


@_inline
def _swap_in(x: GroupRules, s: GroupTables) -> int:
    """Swapped requests come back, in order, until one does not fit: blocks moved."""
    g, moved, n = s.engine[0], 0, 0
    while n < g.swapped:
        r = s.swapped[n]
        q = s.group[r]
        if g.free - q.held - q.there < x.watermark or g.wide + q.wide > x.max_seqs:
            break
        moved += q.held
        g.host += q.held
        g.free -= q.held
        append(x, s, r)
        g.wide += q.wide
        insert(s.running, g.running, r)
        g.running += 1
        n += 1
    g.swapped -= n
    for i in range(g.swapped if n else 0):
        s.swapped[i] = s.swapped[i + n]
    return moved


@_inline
def _note_iteration(x: GroupRules, s: GroupTables, state: Any) -> None:
    """What is held, and for whom, in the iteration that was decided."""
    g = s.engine[0]
    tables = wasted = 0
    for i in range(g.running):
        q = s.group[s.running[i]]
        tables += q.there * q.columns
        wasted += q.last * max(0, q.columns * x.size - q.length)  # the newest token may have no slot yet
    idle = x.reserved
    for i in range(len(s.users)):
        if s.users[i]:
            idle -= s.blocks[i]
    held, n = x.pool - g.free, g.rows
    state[0, n], state[1, n] = g.running, g.back + g.arrived - g.head + g.swapped
    state[5, n], state[6, n], state[9, n] = held * x.size, wasted, (tables - held + idle) * x.size


@_inline
def _tokens(x: GroupRules, s: GroupTables, r: int, now: float, runs: Any) -> bool:
    """Each sequence of a request has a token more; others fork after the prompt. Whether that is its end."""
    g, q = s.engine[0], s.group[r]
    if q.beam and q.there > 1:
        survive(x, s, r)
    if q.final + 1 != g.rows:
        if q.first >= 0:
            runs[0, g.runs], runs[1, g.runs], runs[2, g.runs] = r, q.first, q.final
            g.runs += 1
        q.first = g.rows
    q.final = g.rows
    if np.isnan(s.times[1, r]):
        s.times[1, r] = now
    q.there = q.wide
    q.length += 1
    if q.length < q.target:
        return False
    runs[0, g.runs], runs[1, g.runs], runs[2, g.runs] = r, q.first, q.final
    g.runs += 1
    q.first = -1
    s.times[2, r] = now
    free(s, r)
    g.wide -= q.wide
    _gone(x, s, now)
    return True


@_inline
def _complete(x: GroupRules, s: GroupTables, chunks: int, now: float, runs: Any) -> None:
    """The iteration ends: who was in it has a token more, and some are done."""
    g = s.engine[0]
    kept = 0
    for i in range(g.running):
        r = s.running[i]
        if (x.mixed or chunks == 0 or s.group[r].mark == g.rows) and _tokens(x, s, r, now, runs):
            continue
        s.running[kept] = r
        kept += 1
    g.running = kept


@kernel(**LOOP)
def serve_engine(x: Any, price: Any, s: Any, now: float, clock: Any, state: Any, runs: Any) -> Any:
    """Go on from some time until nothing is left, or a table is full: status and time.

    Columns of `clock` and `state` are iterations; `state` is that of `desk.Desk`, then blocks moved to the host and
    back, and tokens that sharing saves. `runs` tells request, first and last iteration.
    """
    kind, line, grid, top = price
    g = s.engine[0]
    status, most = DONE, 2 * len(s.running)
    while True:
        if g.runs + most > runs.shape[1] or g.rows == clock.shape[1]:
            status = FULL
            break
        while g.arrived < g.known and s.arrival[g.arrived] <= now:
            g.arrived += 1
        if g.running + g.swapped + g.back + g.arrived - g.head == 0:
            if g.arrived >= g.known:
                break
            now = s.arrival[g.arrived]
            continue
        if now >= x.until:
            break
        chunks = ignored = preempted = out = back = decodes = context = 0
        if g.swapped == 0 and not x.mixed:
            chunks, ignored = _admit(x, s, now, 0)
        if chunks + ignored == 0:
            preempted, out = _make_room(x, s)
            if out < 0:
                status = STOPPED
                break
            if preempted == 0:
                back = _swap_in(x, s)
            for i in range(g.running):
                q = s.group[s.running[i]]
                decodes += q.there
                context += q.there * q.length
            if x.mixed and preempted == 0 and g.swapped == 0:
                chunks, ignored = _admit(x, s, now, decodes)
        seconds, prefill = 0.0, 0
        if chunks + decodes:
            seconds = seconds_of(kind, line, grid, decodes, context, s.new, s.old, chunks, decodes + chunks)
            seconds = varied(top, seconds, 0, now, g.steps, decodes, chunks)
            g.steps += 1
            if not (seconds > 0 and seconds < np.inf):
                status = STOPPED
                break
        if out + back:
            seconds += (out + back) * x.copies * x.copy_s
        if seconds == 0:
            g.carried += preempted
            if g.stalled or (ignored == 0 and preempted == 0):
                status = STOPPED
                break
            g.stalled = 1 if ignored == 0 else 0
            continue
        g.stalled = 0
        if now + seconds >= x.until:
            break
        for i in range(chunks):
            prefill += s.new[i]
        n = g.rows
        clock[0, n], clock[1, n] = now, now + seconds
        state[2, n], state[3, n], state[4, n] = prefill, decodes, preempted + g.carried
        state[7, n], state[8, n] = out, back
        _note_iteration(x, s, state)
        g.carried = 0
        now += seconds
        _complete(x, s, chunks, now, runs)
        g.rows += 1
    return status, now
