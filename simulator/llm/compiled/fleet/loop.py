"""The compiled loop of several engines: arrivals, decisions and ends of iterations in one order of time.

It is `reference` in numbers: the same events, and of those at one instant the same order. An event that would be the
next one in any case never enters the heap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .....jit import inner, kernel
from ..rules import BARE, LOOP, seconds_of
from ..times import varied
from .contiguous import complete_batch, decide_batch
from .events import ARRIVES, DECIDES, ENDS, pop, push
from .routers import choose
from .sarathi import decide_sarathi
from .speculative import complete_drafted, decide_drafted, drafted_cost
from .tables import FASTERTRANSFORMER, ORCA, SARATHI, SPECULATIVE, V1, WAITS, FleetRules, Tables
from .v1 import complete, decide
from .waiting import enqueue

__all__ = ["LOOPS", "NOTHING_LEFT", "STOPPED", "TABLE_FULL", "note_iteration", "plain_cost"]

NOTHING_LEFT, STOPPED, TABLE_FULL = range(3)
"""How a loop returned; STOPPED: the policy stands still, or a cost is no time."""

_inline: Any = inner(**BARE)


@_inline
def _done(x: FleetRules, s: Tables, calls: Any, r: int, now: float) -> None:
    """A request is done: schedule the turns that follow it, or in a closed loop the next request."""
    first, sent, arrival, think, begin, followers, _, _ = calls
    for k in range(begin[r], begin[r + 1]):
        f = followers[k]
        at = now + think[f]
        push(s, at if x.concurrency else max(at, arrival[f]), ARRIVES, len(s.engine) + 1 + f)
    if x.concurrency and begin[r] == begin[r + 1] and sent[0] < len(first):
        push(s, now, ARRIVES, len(s.engine) + 1 + first[sent[0]])
        sent[0] += 1


@_inline
def _arrive(x: FleetRules, s: Tables, calls: Any, r: int, now: float) -> None:
    """A request is sent to an engine, unless none can take it."""
    dropped, route = calls[6], calls[7]
    s.times[0, r] = now
    if dropped[r]:
        s.counts[3, r] = 1
        _done(x, s, calls, r, now)
        return
    e = choose(x, s, route, r)
    s.tally[2] += 1
    g, q = s.engine[e], s.request[r]
    s.counts[2, r] = q.engine = e
    g.outstanding += 1
    g.tokens += q.prompt
    q.order, q.state = g.fresh, WAITS
    g.fresh += 1
    enqueue(s.request, s.engine, e, r)
    if g.idle:
        g.idle = 0
        push(s, now, DECIDES, e)


@_inline
def _leave(x: FleetRules, s: Tables, calls: Any, e: int, now: float) -> None:
    """Those whose last token the step gave that just ended leave their engine."""
    g = s.engine[e]
    final = s.final[e, g.completed & 1]
    for i in range(1, final[0] + 1):
        g.outstanding -= 1
        g.tokens -= s.request[final[i]].prompt
        _done(x, s, calls, final[i], now)


@_inline
def note_iteration(
    x: FleetRules, s: Tables, e: int, start: float, clock: Any, state: Any, n: int, chunks: int, decodes: int
) -> None:
    """One row for an iteration."""
    g = s.engine[e]
    prefill = 0
    for j in range(chunks):
        prefill += s.new[j]
    clock[0, n], clock[1, n] = start, s.busy[e]
    used = (x.pool - g.free) * x.size
    state[0, n], state[1, n], state[2, n], state[3, n] = g.running, g.waiting, prefill, decodes
    state[4, n], state[5, n], state[6, n] = g.carried, used, x.groups * (g.held * x.size - g.computed)
    # Blocks that all who run have, each for itself, less those that are held.
    state[7, n], state[8, n] = (x.groups * g.held - x.near * g.gone) * x.size - used if x.caching else 0, e
    g.carried, g.used = 0, used


@_inline
def plain_cost(price: Any, s: Tables, e: int, decodes: int, context: int, chunks: int, outputs: int) -> float:
    """Seconds of a step by the cost of its iteration."""
    return seconds_of(price.kind, price.line, price.grid, decodes, context, s.new, s.old, chunks, outputs)


def _made(decide: Any, complete: Any, cost: Any = plain_cost) -> Callable[..., Any]:
    """The loop of one kind of policies: compiled by itself, for few runs need more than one."""

    @kernel(**LOOP)
    def serve_fleet(x: Any, price: Any, s: Any, calls: Any, clock: Any, state: Any, runs: Any, counters: Any) -> Any:
        """Serve requests on engines that share a router, until nothing is left or a table is full.

        `calls`: rows that wait for nobody; how many of them were sent in a closed loop; arrival and think times; where
        each row's followers begin, and the followers; rows that no engine takes; the `Routing`.

        Columns of `clock` and `state` are iterations of all engines in order of decision; `state` is that of
        `desk.Desk`, then tokens in shared blocks, once for each sharer but one, and the engine. `runs` tells request,
        first and last iteration of its engine. `counters`: iterations, runs, the next of those that wait for nobody.

        Returns
        -------
        status, *counters : int
        """
        n, n_runs, following = counters
        engines, first = len(s.engine), calls[0]
        room, rows = runs.shape[1] - 2 * s.looked.shape[1] - 4, clock.shape[1]  # what one more step may need
        status = NOTHING_LEFT
        while status == NOTHING_LEFT and s.tally[0]:
            if n_runs > room or n == rows:
                status = TABLE_FULL
                break
            now = s.time[0]
            if now >= x.until:
                break
            what = pop(s)
            if what >= engines:
                _arrive(x, s, calls, first[following] if what == engines else what - engines - 1, now)
                if what == engines:
                    following += 1
                    if following < len(first):
                        push(s, calls[2][first[following]], ARRIVES, engines)
                continue
            e = what
            g = s.engine[e]
            while True:
                if g.ending:
                    g.ending = 0
                    g.flying -= 1
                    n_runs = complete(x, s, e, now, runs, n_runs)
                    _leave(x, s, calls, e, now)
                else:
                    if g.running + g.waiting == 0:
                        g.idle = 1
                        break
                    tokens, chunks, decodes, context, outputs, preempted, n_runs = decide(x, s, e, now, runs, n_runs)
                    g.carried += preempted
                    if tokens:
                        seconds = cost(price, s, e, decodes, context, chunks, outputs)
                        start = max(now, s.busy[e])
                        seconds = varied(price.top, seconds, e, start, g.iteration, decodes, chunks)
                        if not (seconds > 0 and seconds < np.inf):
                            status = STOPPED
                            break
                        s.busy[e] = start + seconds
                        s.ends[e, g.decided & 1] = s.busy[e]
                        g.stalled = 0
                        g.flying += 1
                        note_iteration(x, s, e, start, clock, state, n, chunks, decodes)
                        g.iteration += 1
                        n += 1
                    else:
                        if g.flying == 0 and (g.stalled or preempted == 0):
                            status = STOPPED
                            break
                        g.stalled = 1
                    if g.flying == x.deep or (g.flying and tokens == 0):
                        g.ending = 1
                        end = s.ends[e, (g.completed + 1) & 1]
                        # Nothing comes before an event that is put off only because a table is full: it is the next.
                        if end >= x.until or (s.tally[0] and s.time[0] <= end) or n_runs > room or n == rows:
                            push(s, end, ENDS, e)
                            break
                        now = end
                        continue
                if (s.tally[0] and s.time[0] <= now) or n_runs > room or n == rows:
                    push(s, now, DECIDES, e)
                    break
        return status, n, n_runs, following

    return serve_fleet


_BATCH: Any = _made(decide_batch, complete_batch)
LOOPS: dict[int, Any] = {
    V1: _made(decide, complete),
    SARATHI: _made(decide_sarathi, complete),
    ORCA: _BATCH,
    FASTERTRANSFORMER: _BATCH,
    SPECULATIVE: _made(decide_drafted, complete_drafted, drafted_cost),
}
"""The loop of each kind of policies."""
