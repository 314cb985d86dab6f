"""The compiled loop over engines that fail, come and go: `fleet.run.FleetRun` in numbers, under today's vLLM.

It is the loop of the compiled fleet (`compiled.fleet.loop`) with more kinds of events: the same order among those of
one instant, and an event that would be the next one in any case never enters the heap.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .....jit import inner, kernel
from ..fleet.events import pop
from ..fleet.loop import NOTHING_LEFT, STOPPED, TABLE_FULL, note_iteration
from ..fleet.tables import FleetRules, Tables
from ..fleet.v1 import complete, decide
from ..rules import BARE, LOOP, seconds_of
from ..times import varied
from .breakdowns import dies, note_given, repaired, serve, under_repair
from .events import (
    AGAIN,
    ARRIVES,
    BACK,
    DECIDES,
    DIES,
    ENDS,
    FRESH,
    NEXT,
    REPAIRED,
    SCALE,
    SCALES,
    STEP,
    STRIKES,
    code_of,
    schedule,
    stamp_of,
    what_of,
)
from .growth import add, missing, remove
from .members import let_go
from .requests import done, give_up, place, wait_no_more
from .routers import DRAWS_OF_ONE
from .tables import ARRIVED, DOWN, DRAWS, GONE, LEFT, MEMBERS, SPANS, USED, ZERO, Ledger, Ways

__all__ = ["TABLE_FULL", "serve_changing"]

_inline: Any = inner(**BARE)


@_inline
def _full(s: Tables, d: Ledger, grow: int) -> bool:
    """Whether a table has no room for what one more event may need, but those that every step fills."""
    n, engines = len(d.trip), len(d.number)
    if s.tally[0] + 2 * n + 2 * engines + 8 > len(s.time) or d.tally[SPANS] + 2 * engines + 2 > d.at.shape[1]:
        return True
    if d.tally[DRAWS] + 1 > d.lives.shape[1] or d.tally[USED] + DRAWS_OF_ONE * (n + 1) + 64 > len(d.drawn):
        return True
    if grow == 0:
        return False
    free = 0
    for e in range(engines):
        free += d.number[e] < 0
    return free < grow or d.tally[MEMBERS] + grow > len(d.member)


@_inline
def _leave(x: FleetRules, s: Tables, d: Ledger, calls: Any, k: int, e: int, now: float) -> None:
    """Those whose last token the step gave that just ended leave their engine."""
    final = s.final[e, s.engine[e].completed & 1]
    for i in range(1, final[0] + 1):
        let_go(s, d, k, final[i], now)
        done(x, s, d, calls, final[i], now)


@_inline
def _note(
    x: FleetRules, s: Tables, d: Ledger, k: int, start: float, tables: Any, n: int, chunks: int, decodes: int
) -> None:
    """One row for an iteration."""
    clock, state, _ = tables
    m = d.member[k]
    note_iteration(x, s, m.slot, start, clock, state, n, chunks, decodes)
    state[8, n], d.row[m.slot, s.engine[m.slot].decided & 1] = k, n
    m.began = 1


@_inline
def _strikes(d: Ledger, code: int, k: int, stamp: int) -> tuple[int, float]:
    """The engine that fails now, and the seconds of its repair; -1: none is there to fail."""
    if code == STRIKES:
        struck, lasts = d.fault[k], d.repair[k]
        there = struck < d.tally[MEMBERS] and d.member[struck].state < DOWN
    else:
        m = d.member[k]
        struck, lasts = k, d.lives[k, m.drawn - 1, 1]
        there = m.born == stamp and m.state != GONE
    return (struck if there else -1), lasts


@_inline
def _arrives(x: FleetRules, s: Tables, d: Ledger, calls: Any, code: int, k: int, now: float) -> int:
    """The request that is sent to an engine now; -1: none is, since no engine could take it."""
    r = calls[0][d.tally[ARRIVED]] if code == NEXT else k
    if code != AGAIN:
        s.times[0, r] = now
        if calls[6][r]:
            s.counts[3, r] = 1
            done(x, s, d, calls, r, now)
            r = -1
    return r


@_inline
def _happens(
    x: FleetRules, w: Ways, s: Tables, d: Ledger, calls: Any, tables: Any, n_runs: int, event: int, now: float
) -> int:
    """All that may happen, but for an engine that goes on: how many runs of tokens there are now."""
    code, k, stamp = code_of(event), what_of(event), stamp_of(event)
    to_place = serves = -1
    missed = 0
    if code in (NEXT, FRESH, AGAIN):
        to_place = _arrives(x, s, d, calls, code, k, now)
    elif code == SCALE:
        missed = missing(x, s, d, k)
    elif code in (DIES, STRIKES):
        struck, lasts = _strikes(d, code, k, stamp)
        if struck >= 0:
            n_runs = dies(x, w, s, d, calls, tables, n_runs, struck, now)
            under_repair(s, d, struck, lasts, now)
    elif d.member[k].turns == stamp:
        if code == REPAIRED:
            repaired(w, s, d, k, now)
        else:
            serves = k
            if code == BACK:  # it decides after what arrives now
                schedule(s, now, DECIDES, STEP, k, d.member[k].born)
    # Each of these at one place only, as each copy would have to be compiled.
    while True:
        if serves >= 0:
            serve(w, s, d, serves, now)
            serves = -1
        if to_place < 0 and d.up[0]:
            to_place = wait_no_more(d)  # requests that waited for an engine are routed again, in order
        if to_place >= 0:
            place(x, s, d, calls[7], to_place, now)
            to_place = -1
        elif missed > 0:
            serves = add(x, s, d, d.rule[k].start, now)
            missed -= 1
        else:
            break
    while missed < 0:
        remove(s, d, now)
        missed += 1
    give_up(x, s, d, calls, now)
    if code == SCALE:
        schedule(s, now + d.rule[k].interval, SCALES, SCALE, k, ZERO)
    elif code == NEXT:
        d.tally[ARRIVED] += 1
        if d.tally[ARRIVED] < len(calls[0]):
            following = calls[0][d.tally[ARRIVED]]
            schedule(s, calls[2][following], ARRIVES, NEXT, ZERO, ZERO)
    return n_runs


@kernel(**LOOP)
def serve_changing(
    x: Any, w: Any, price: Any, s: Any, d: Any, calls: Any, tables: Any, counters: Any, end: float
) -> Any:
    """Serve requests until none is left, or a table is full.

    `tables`: clock, state, runs as `fleet.loop` has them, with an engine's number instead of its row; runs have it as a
    fourth line. Where `state` has the engine -1, that iteration never was. `counters`: iterations, runs.

    Returns
    -------
    status, iterations, runs : int
    end : float
        The time of the last event.
    """
    kind, line, grid, top = price
    clock, _, runs = tables
    n, n_runs = counters
    streams = len(top.keys) // top.ranks
    rows, room = clock.shape[1], runs.shape[1] - 2 * s.looked.shape[1] - len(d.trip) - 4
    most = 0
    for i in range(len(d.rule)):
        most = max(most, d.rule[i].most)
    status = NOTHING_LEFT
    while status == NOTHING_LEFT and s.tally[0] and d.tally[LEFT]:
        now = s.time[0]
        if now >= x.until:
            break
        grow = most if code_of(s.event[0, 1]) == SCALE else ZERO
        if n_runs > room or n == rows or _full(s, d, grow):
            status = TABLE_FULL
            break
        end = now
        event = pop(s)
        if code_of(event) != STEP:
            n_runs = _happens(x, w, s, d, calls, tables, n_runs, event, now)
            continue
        k = what_of(event)
        m = d.member[k]
        e = m.slot
        if e < 0 or m.born != stamp_of(event):
            continue
        g = s.engine[e]
        while True:
            if g.ending:
                g.ending = 0
                g.flying -= 1
                before = n_runs
                n_runs = complete(x, s, e, now, runs, n_runs)
                note_given(d, runs, before, n_runs, k)
                _leave(x, s, d, calls, k, e, now)
                if m.slot < 0 or d.tally[LEFT] == 0:
                    break
            else:
                if g.running + g.waiting == 0:
                    g.idle = 1
                    break
                before = n_runs
                tokens, chunks, decodes, context, outputs, preempted, n_runs = decide(x, s, e, now, runs, n_runs)
                note_given(d, runs, before, n_runs, k)
                g.carried += preempted
                if tokens:
                    seconds = seconds_of(kind, line, grid, decodes, context, s.new, s.old, chunks, outputs)
                    start = max(now, s.busy[e])
                    seconds = varied(top, seconds, k % streams, start, m.steps, decodes, chunks)
                    if not (seconds > 0 and seconds < np.inf):
                        status = STOPPED
                        break
                    m.steps += 1
                    s.busy[e] = start + seconds
                    s.ends[e, g.decided & 1] = s.busy[e]
                    g.stalled = 0
                    g.flying += 1
                    _note(x, s, d, k, start, tables, n, chunks, decodes)
                    g.iteration += 1
                    n += 1
                else:
                    if g.flying == 0 and (g.stalled or preempted == 0):
                        status = STOPPED
                        break
                    g.stalled = 1
                if g.flying == x.deep or (g.flying and tokens == 0):
                    g.ending = 1
                    until = s.ends[e, (g.completed + 1) & 1]
                    # Nothing comes before an event that is put off only because a table is full: it is the next.
                    if until >= x.until or (s.tally[0] and s.time[0] <= until) or n_runs > room or n == rows:
                        schedule(s, until, ENDS, STEP, k, m.born)
                        break
                    now = end = until
                    continue
            if (s.tally[0] and s.time[0] <= now) or n_runs > room or n == rows:
                schedule(s, now, DECIDES, STEP, k, m.born)
                break
    return status, n, n_runs, end
