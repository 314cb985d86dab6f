"""The compiled loop over engines that fail, come and go, of pools too: `fleet.run.FleetRun` in numbers.

It is for today's vLLM, with drafts or without, and the loop of the compiled fleet (`compiled.fleet.loop`) with more
kinds of events: the same order among those of one instant, and an event that would be the next one in any case never
enters the heap. What concerns pools is compiled only where there are some (`h` is not None).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .....jit import inner, kernel
from ..fleet.events import pop
from ..fleet.loop import NOTHING_LEFT, STOPPED, TABLE_FULL, note_iteration, plain_cost
from ..fleet.speculative import complete_drafted, decide_drafted, drafted_cost
from ..fleet.tables import SPECULATIVE, V1, FleetRules, Tables
from ..fleet.v1 import complete
from ..rules import BARE, LOOP
from ..times import varied
from .breakdowns import note_given
from .events import DECIDES, ENDS, SCALE, STEP, code_of, schedule, stamp_of, what_of
from .handoff import complete_half, decide_half, row_of
from .happens import happens
from .members import let_go
from .requests import done, prompt_done
from .routers import DRAWS_OF_ONE
from .tables import DRAWS, FIRST, LEFT, MEMBERS, SPANS, USED, ZERO, Handoff, Ledger

__all__ = ["LOOPS", "TABLE_FULL"]

_inline: Any = inner(**BARE)


@_inline
def _full(s: Tables, d: Ledger, grow: int) -> bool:
    """Whether a table has no room for what one more event may need, but those that every step fills."""
    n, engines = len(d.trip), len(d.number)
    if s.tally[0] + 2 * n + 2 * engines + 8 > len(s.time) or d.tally[SPANS] + 2 * engines + 2 > d.at.shape[1]:
        return True
    if d.tally[DRAWS] + 1 > d.lives.shape[1]:
        return True
    for role in range(len(d.routed)):
        if d.routed[role, USED] + DRAWS_OF_ONE * (n + 1) + 64 > d.drawn.shape[1]:
            return True
    if grow == 0:
        return False
    free = 0
    for e in range(engines):
        free += d.number[e] < 0
    return free < grow or d.tally[MEMBERS] + grow > len(d.member)


@_inline
def _leave(xs: Any, s: Tables, d: Ledger, h: Handoff | None, calls: Any, k: int, e: int, now: float) -> None:
    """Those whose last token the step gave that just ended leave their engine."""
    final = s.final[e, s.engine[e].completed & 1]
    for i in range(1, final[0] + 1):
        r = final[i]
        if h is not None:
            if r < len(d.scheduled):
                prompt_done(xs, s, d, h, calls, k, r, now)
                continue
            s.times[2, row_of(d, r)] = now
        let_go(s, d, k, r, now)
        done(xs[FIRST], s, d, calls, row_of(d, r), now)


@_inline
def _works(s: Tables, h: Handoff | None, e: int) -> bool:
    """Whether an engine has something to decide."""
    there = s.engine[e].running + s.engine[e].waiting
    if h is not None:
        there += h.desk[e].announced + (h.desk[e].landed >= 0)
    return there > 0


@_inline
def _awaited(h: Handoff | None, e: int) -> bool:
    """Whether a transfer will free blocks of an engine, or bring it a request."""
    if h is not None:
        return h.desk[e].held + h.desk[e].coming > 0
    return False


@_inline
def _note(
    x: FleetRules, s: Tables, d: Ledger, h: Handoff | None, k: int, start: float, tables: Any, n: int, parts: Any
) -> None:
    """One row for an iteration of so many chunks and decodes."""
    clock, state, _ = tables
    chunks, decodes = parts
    m = d.member[k]
    note_iteration(x, s, m.slot, start, clock, state, n, chunks, decodes)
    state[8, n], d.row[m.slot, s.engine[m.slot].decided & 1] = k, n
    m.began = 1
    if h is not None:
        desk = h.desk[m.slot]
        desk.began = start
        state[1, n] += desk.announced
        state[7, n] = s.engine[m.slot].held * x.size - state[5, n]  # blocks that are held for transfers are nobody's


@_inline
def _complete(
    x: FleetRules, s: Tables, d: Ledger, h: Handoff | None, e: int, now: float, runs: Any, n_runs: int
) -> int:
    """The earliest step under way of an engine ends, alone or of a pool; returns the runs noted."""
    if h is None:
        return complete(x, s, e, now, runs, n_runs)
    return complete_half(x, s, d, h, e, runs, n_runs)


@_inline
def _decide_drafted(x: FleetRules, s: Tables, d: Ledger, h: None, e: int, now: float, runs: Any, n_runs: int) -> Any:
    return decide_drafted(x, s, e, now, runs, n_runs)


@_inline
def _complete_drafted(x: FleetRules, s: Tables, d: Ledger, h: None, e: int, now: float, runs: Any, n_runs: int) -> int:
    return complete_drafted(x, s, e, now, runs, n_runs)


def _made(decide: Any, complete: Any, cost: Any) -> Callable[..., Any]:
    """The loop of one kind of schedulers."""

    @kernel(**LOOP)
    def serve_changing(
        roles: Any, w: Any, s: Any, d: Any, h: Any, calls: Any, tables: Any, counters: Any, end: float
    ) -> Any:
        """Serve requests until none is left, or a table is full.

        `roles`: of each role its `FleetRules`, and its `Price`; `h`: the `Handoff` of pools, None: there are none.
        `calls`: as `fleet.loop` has them, with the `Routing` of each role.

        `tables`: clock, state, runs as `fleet.loop` has them, with an engine's number instead of its row; runs have it
        as a fourth line. Where `state` has the engine -1, that iteration never was. `counters`: iterations, runs.

        Returns
        -------
        status, iterations, runs : int
        end : float
            The time of the last event.
        """
        xs, prices = roles
        clock, _, runs = tables
        n, n_runs = counters
        streams = len(prices[FIRST].top.keys) // prices[FIRST].top.ranks
        rows, room = clock.shape[1], runs.shape[1] - 2 * s.looked.shape[1] - len(d.trip) - 4
        most = 0
        for i in range(len(d.rule)):
            most = max(most, d.rule[i].most)
        status = NOTHING_LEFT
        while status == NOTHING_LEFT and s.tally[0] and d.tally[LEFT]:
            now = s.time[0]
            if now >= xs[FIRST].until:
                break
            grow = most if code_of(s.event[0, 1]) == SCALE else ZERO
            if n_runs > room or n == rows or _full(s, d, grow):
                status = TABLE_FULL
                break
            end = now
            event = pop(s)
            if code_of(event) != STEP:
                n_runs = happens(xs, w, s, d, h, calls, tables, n_runs, event, now)
                continue
            k = what_of(event)
            m = d.member[k]
            e = m.slot
            if e < 0 or m.born != stamp_of(event):
                continue
            g, x, price = s.engine[e], xs[m.role], prices[m.role]
            while True:
                if g.ending:
                    g.ending = 0
                    g.flying -= 1
                    before = n_runs
                    n_runs = complete(x, s, d, h, e, now, runs, n_runs)
                    note_given(x, d, runs, before, n_runs, k)
                    _leave(xs, s, d, h, calls, k, e, now)
                    if m.slot < 0 or d.tally[LEFT] == 0:
                        break
                else:
                    if not _works(s, h, e):
                        g.idle = 1
                        break
                    before = n_runs
                    step = decide(x, s, d, h, e, now, runs, n_runs)
                    tokens, chunks, decodes, context, outputs, preempted, n_runs = step
                    note_given(x, d, runs, before, n_runs, k)
                    g.carried += preempted
                    if tokens:
                        seconds = cost(price, s, e, decodes, context, chunks, outputs)
                        start = max(now, s.busy[e])
                        seconds = varied(price.top, seconds, k % streams, start, m.steps, decodes, chunks)
                        if not (seconds > 0 and seconds < np.inf):
                            status = STOPPED
                            break
                        m.steps += 1
                        s.busy[e] = start + seconds
                        s.ends[e, g.decided & 1] = s.busy[e]
                        g.stalled = 0
                        g.flying += 1
                        _note(x, s, d, h, k, start, tables, n, (chunks, decodes))
                        g.iteration += 1
                        n += 1
                    else:
                        if g.flying == 0 and (g.stalled or preempted == 0):
                            if _awaited(h, e):
                                g.idle, g.stalled = 1, 0
                            else:
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

    return serve_changing


LOOPS: dict[int, Any] = {
    V1: _made(decide_half, _complete, plain_cost),
    SPECULATIVE: _made(_decide_drafted, _complete_drafted, drafted_cost),
}
"""The loop of each kind of schedulers."""
