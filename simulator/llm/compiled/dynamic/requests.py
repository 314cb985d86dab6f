"""Where requests go in a fleet that changes, compiled: to an engine, or they wait for one, are done, are given up."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....jit import inner
from ..fleet.tables import WAITS, FleetRules, Tables
from ..fleet.waiting import enqueue
from ..rules import BARE, CALL
from .events import ARRIVES, FRESH, schedule
from .handoff import announce, arrived, row_of
from .members import take, wake
from .routers import choose
from .tables import DECODE, FIRST, LEFT, STARTING, UP, ZERO, Handoff, Ledger
from .transfers import release_sent, transfer

__all__ = ["done", "fail", "give_up", "landed", "place", "prompt_done", "wait_no_more"]

_inline: Any = inner(**BARE)
_call: Any = inner(**CALL)


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
def _waits(d: Ledger, role: int, r: int) -> None:
    """A request waits for an engine of a role, behind those that do."""
    t, waiting = d.trip[r], d.waiting[role]
    last = waiting[1]
    t.earlier, t.later = last, -1
    if last >= 0:
        d.trip[last].later = r
    else:
        waiting[0] = r
    waiting[1] = r


@_inline
def wait_no_more(d: Ledger, role: int) -> int:
    """The first request that waits for an engine of a role goes on; -1: none waits."""
    waiting = d.waiting[role]
    r = waiting[0]
    if r >= 0:
        waiting[0] = d.trip[r].later
        if waiting[0] >= 0:
            d.trip[waiting[0]].earlier = -1
        else:
            waiting[1] = -1
    return r


@_inline
def _hopeless(d: Ledger, role: int) -> bool:
    """Whether requests wait for an engine of a role, and none will ever serve again."""
    if d.waiting[role, 0] < 0:
        return False
    for i in range(len(d.rule)):
        if d.rule[i].role == role:
            return False  # a rule may add one
    for e in range(len(d.number)):
        if d.number[e] >= 0:
            m = d.member[d.number[e]]
            if m.role == role and (m.state == UP or m.state == STARTING or m.returns):
                return False
    return True


@_inline
def give_up(xs: Any, s: Tables, d: Ledger, h: Handoff | None, calls: Any, role: int, now: float) -> None:
    """Fail the requests that wait for an engine of a role, if none will ever serve again."""
    if not _hopeless(d, role):
        return
    r = wait_no_more(d, role)
    while r >= 0:
        row = row_of(d, r)
        if h is not None and h.sender[row] >= 0:
            sender = h.sender[row]
            h.sender[row] = -1
            release_sent(xs[FIRST], s, d, h, sender, row, now)
        fail(xs[FIRST], s, d, calls, row, now)
        r = wait_no_more(d, role)


def _placed(xs: Any, s: Tables, d: Ledger, h: Handoff | None, routes: Any, role: int, r: int, now: float) -> None:
    if d.up[role, 0] == 0:
        _waits(d, role, r)
        return
    row, e = row_of(d, r), choose(xs[role], s, d, routes[role], role, r)
    k = d.number[e]
    g, q = s.engine[e], s.request[r]
    s.counts[2, row] = q.engine = k
    q.state = WAITS
    take(s, d, k, r)
    if h is not None and role == DECODE:
        h.receiver[row] = k
        if h.buffered:
            transfer(xs[DECODE], s, d, h, row, -(-q.prompt // xs[DECODE].size), now)
            return
        announce(s, d, h, e, r)
    else:
        d.trip[r].first = k
        q.order = g.fresh
        g.fresh += 1
        enqueue(s.request, s.engine, e, r)
    wake(s, d, k, now)


_placed_here: Any = _inline(_placed)
_placed_there: Any = _call(_placed)


@_inline
def place(xs: Any, s: Tables, d: Ledger, h: Handoff | None, routes: Any, role: int, r: int, now: float) -> None:
    """A request goes to an engine of a role, or waits for one."""
    if h is None:
        _placed_here(xs, s, d, h, routes, role, r, now)
    else:  # from several places
        _placed_there(xs, s, d, h, routes, role, r, now)


@_inline
def prompt_done(xs: Any, s: Tables, d: Ledger, h: Handoff, calls: Any, k: int, row: int, now: float) -> None:
    """Prefill engine `k` gave a request its first token: it goes on to a decode engine, unless that was its last."""
    half = len(d.scheduled) + row
    if s.request[row].prompt + 1 >= s.request[half].target:
        s.times[2, row] = now
        release_sent(xs[FIRST], s, d, h, k, row, now)
        done(xs[FIRST], s, d, calls, row, now)
        return
    h.sender[row] = k
    place(xs, s, d, h, calls[7], DECODE, half, now)
    if d.up[DECODE, 0] == 0:
        give_up(xs, s, d, h, calls, DECODE, now)


@_inline
def landed(xs: Any, s: Tables, d: Ledger, h: Handoff, row: int, now: float) -> None:
    """A transfer has ended: the sender's blocks are free, the receiver may decode."""
    sender, receiver, half = h.sender[row], h.receiver[row], len(d.scheduled) + row
    h.sender[row] = h.receiver[row] = -1
    release_sent(xs[FIRST], s, d, h, sender, row, now)
    e = d.member[receiver].slot
    if h.buffered:
        announce(s, d, h, e, half)
    else:
        arrived(d, h, e, half)
    wake(s, d, receiver, now)
