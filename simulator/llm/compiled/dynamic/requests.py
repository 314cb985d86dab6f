"""Where requests go in a fleet that changes, compiled: to an engine, or they wait for one, are done, are given up."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....jit import inner
from ..fleet.tables import WAITS, FleetRules, Tables
from ..fleet.waiting import enqueue
from ..rules import BARE
from .events import ARRIVES, FRESH, schedule
from .members import take, wake
from .routers import choose
from .tables import LEFT, STARTING, UP, ZERO, Ledger

__all__ = ["done", "fail", "give_up", "place", "wait_no_more"]

_inline: Any = inner(**BARE)


@_inline
def done(x: FleetRules, s: Tables, d: Ledger, calls: Any, r: int, now: float) -> None:
    """A request is done: schedule the turns that follow it, or in a closed loop the next request."""
    first, sent, arrival, think, begin, followers, _, _ = calls
    d.tally[LEFT] -= 1
    for k in range(begin[r], begin[r + 1]):
        f = followers[k]
        at = now + think[f]
        schedule(s, at if x.concurrency else max(at, arrival[f]), ARRIVES, FRESH, f, ZERO)
    if x.concurrency and begin[r] == begin[r + 1] and sent[0] < len(first):
        schedule(s, now, ARRIVES, FRESH, first[sent[0]], ZERO)
        sent[0] += 1


@_inline
def fail(x: FleetRules, s: Tables, d: Ledger, calls: Any, r: int, now: float) -> None:
    """Nobody will serve a request."""
    s.counts[3, r] = d.trip[r].failed = 1
    s.times[2, r] = np.nan
    done(x, s, d, calls, r, now)


@_inline
def _waits(d: Ledger, r: int) -> None:
    """A request waits for an engine, behind those that do."""
    t, last = d.trip[r], d.waiting[1]
    t.earlier, t.later = last, -1
    if last >= 0:
        d.trip[last].later = r
    else:
        d.waiting[0] = r
    d.waiting[1] = r


@_inline
def wait_no_more(d: Ledger) -> int:
    """The first request that waits for an engine goes on; -1: none waits."""
    r = d.waiting[0]
    if r >= 0:
        d.waiting[0] = d.trip[r].later
        if d.waiting[0] >= 0:
            d.trip[d.waiting[0]].earlier = -1
        else:
            d.waiting[1] = -1
    return r


@_inline
def give_up(x: FleetRules, s: Tables, d: Ledger, calls: Any, now: float) -> None:
    """Fail the requests that wait for an engine, if none will ever serve again."""
    if d.waiting[0] < 0 or len(d.rule):
        return  # a rule may add one
    for e in range(len(d.number)):
        if d.number[e] >= 0:
            m = d.member[d.number[e]]
            if m.state == UP or m.state == STARTING or m.returns:
                return
    r = wait_no_more(d)
    while r >= 0:
        fail(x, s, d, calls, r, now)
        r = wait_no_more(d)


@_inline
def place(x: FleetRules, s: Tables, d: Ledger, route: Any, r: int, now: float) -> None:
    """A request goes to an engine, or waits for one."""
    if d.up[0] == 0:
        _waits(d, r)
        return
    e = choose(x, s, d, route, r)
    k = d.number[e]
    g, q = s.engine[e], s.request[r]
    s.counts[2, r] = q.engine = d.trip[r].first = k
    take(s, d, k, r)
    q.order, q.state = g.fresh, WAITS
    g.fresh += 1
    enqueue(s.request, s.engine, e, r)
    wake(s, d, k, now)
