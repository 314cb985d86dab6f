"""The compiled loop of several engines: arrivals, decisions and ends of iterations in one order of time.

It is `reference` in numbers: the same events, and of those at one instant the same order. An event that would be the
next one in any case never enters the heap.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from .....profiles.llm.cost.grid import JIT
from ..cache import sources
from ..lists import wider
from ..rules import BARE, seconds_of
from .blocks import fresh_pools
from .buddy import fresh_chunks
from .contiguous import complete_batch, decide_batch
from .events import ARRIVES, DECIDES, ENDS, pop, push
from .routers import choose
from .sarathi import decide_sarathi
from .tables import DECODES, DONE, ORCA, SARATHI, V1, WAITS, FleetRules, Tables
from .v1 import complete, decide
from .waiting import enqueue

__all__ = ["serve_fleet"]

_inline: Any = numba.njit(**BARE)


@_inline
def _done(x: FleetRules, s: Tables, calls: Any, r: int, now: float) -> None:
    """What waited for a request may come: the turn that follows it, or in a closed loop the next one."""
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
def _note_iteration(
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
    state[4, n], state[5, n], state[6, n] = g.carried, used, g.held * x.size - g.computed
    state[7, n], state[8, n] = g.held * x.size - used, e
    g.carried, g.used = 0, used


def _cached(sources: int) -> Any:
    """The loop, found again on disk as long as its sources are the same."""

    @numba.njit(**JIT)
    def serve_fleet(x: Any, price: Any, s: Any, calls: Any) -> Any:
        """Serve requests on engines that share a router.

        `calls`: rows that wait for nobody; how many of them were sent in a closed loop; arrival and think times; where
        each row's followers begin, and the followers; rows that no engine takes; the `Routing`.

        Returns
        -------
        status : int
            0; 1 where the policy stands still or a cost is no time.
        clock, state, n : columns of iterations of all engines in order of decision, and their number; state as in
            `compiled_kernel`, then tokens in shared blocks, once for each sharer but one, and the engine
        runs, n_runs : request, first and last iteration of its engine
        """
        _ = sources
        kind, line, grid = price
        engines, first, sent = len(s.engine), calls[0], calls[1]
        seqs = s.looked.shape[1]
        clock, state, runs = np.empty((2, 4096)), np.empty((9, 4096), np.int64), np.empty((3, 4096), np.int64)
        n = n_runs = following = 0
        if x.caching:
            fresh_pools(s)
        if x.kind == ORCA:
            fresh_chunks(s)
        if x.concurrency:
            while sent[0] < min(x.concurrency, len(first)):
                push(s, 0.0, ARRIVES, engines + 1 + first[sent[0]])
                sent[0] += 1
        elif len(first):
            push(s, calls[2][first[0]], ARRIVES, engines)
        while s.tally[0]:
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
                if n_runs + 2 * seqs + 4 > runs.shape[1]:
                    runs = wider(runs, n_runs, 2 * seqs + 4)
                if g.ending:
                    g.ending = 0
                    g.flying -= 1
                    if x.kind == V1 or x.kind == SARATHI:
                        n_runs = complete(x, s, e, now, runs, n_runs)
                    else:
                        n_runs = complete_batch(x, s, e, now, runs, n_runs)
                    _leave(x, s, calls, e, now)
                else:
                    if g.running + g.waiting == 0:
                        g.idle = 1
                        break
                    preempted = 0
                    if x.kind == V1:
                        tokens, chunks, decodes, context, outputs, preempted, n_runs = decide(
                            x, s, e, now, runs, n_runs
                        )
                    elif x.kind == SARATHI:
                        tokens, chunks, decodes, context, outputs, preempted, n_runs = decide_sarathi(
                            x, s, e, now, runs, n_runs
                        )
                    else:
                        tokens, chunks, decodes, context, outputs = decide_batch(x, s, e, now)
                    g.carried += preempted
                    if tokens:
                        seconds = seconds_of(
                            kind, line, grid, decodes, context, s.new[:chunks], s.old[:chunks], outputs
                        )
                        if not (seconds > 0 and seconds < np.inf):
                            return 1, clock, state, n, runs, n_runs
                        start = max(now, s.busy[e])
                        s.busy[e] = start + seconds
                        s.ends[e, g.decided & 1] = s.busy[e]
                        g.stalled = 0
                        g.flying += 1
                        if n == clock.shape[1]:
                            clock, state = wider(clock, n, 1), wider(state, n, 1)
                        _note_iteration(x, s, e, start, clock, state, n, chunks, decodes)
                        g.iteration += 1
                        n += 1
                    else:
                        if g.flying == 0 and (g.stalled or preempted == 0):
                            return 1, clock, state, n, runs, n_runs
                        g.stalled = 1
                    if g.flying == x.deep or (g.flying and tokens == 0):
                        g.ending = 1
                        end = s.ends[e, (g.completed + 1) & 1]
                        if end >= x.until or (s.tally[0] and s.time[0] <= end):
                            push(s, end, ENDS, e)
                            break
                        now = end
                        continue
                if s.tally[0] and s.time[0] <= now:
                    push(s, now, DECIDES, e)
                    break
        runs = wider(runs, n_runs, len(s.request))
        for r in range(len(s.request)):
            q = s.request[r]
            if q.begin >= 0 and q.state != DONE:
                last = s.engine[q.engine].iteration - 1 if q.state == DECODES else q.last
                runs[0, n_runs], runs[1, n_runs], runs[2, n_runs] = r, q.begin, last
                n_runs += 1
        return 0, clock, state, n, runs, n_runs

    return serve_fleet


serve_fleet: Any = _cached(sources())
