"""The lives of engines, compiled: they join, change their state, lose their memory, let requests go."""

from __future__ import annotations

from typing import Any

from .....jit import inner
from ..fleet.tables import FleetRules, Tables
from ..rules import BARE, CALL
from .events import DECIDES, STEP, schedule
from .tables import DRAINING, GONE, MEMBERS, SPANS, UP, Handoff, Ledger

__all__ = ["become", "empty", "join", "let_go", "take", "wake"]

_inline: Any = inner(**BARE)
_call: Any = inner(**CALL)


@_call
def _serves(up: Any, number: Any, e: int) -> None:
    """An engine is one of those that serve, which stand in order of their numbers."""
    i = up[0]
    while i > 0 and number[up[i]] > number[e]:
        up[i + 1] = up[i]
        i -= 1
    up[i + 1] = e
    up[0] += 1


@_call
def _serves_no_more(up: Any, e: int) -> None:
    i = 1
    while up[i] != e:
        i += 1
    up[0] -= 1
    while i <= up[0]:
        up[i] = up[i + 1]
        i += 1


@_inline
def become(d: Ledger, k: int, state: int, now: float) -> None:
    """Engine `k` changes its state. One that is gone leaves its row to others."""
    m, n = d.member[k], d.tally[SPANS]
    d.span[0, n], d.span[1, n], d.at[0, n], d.at[1, n] = k, m.state, d.since[k], now
    d.tally[SPANS] += 1
    if m.state == UP:
        _serves_no_more(d.up[m.role], m.slot)
    m.state, d.since[k] = state, now
    m.turns += 1
    if state == UP:
        _serves(d.up[m.role], d.number, m.slot)
    if state == GONE:
        d.number[m.slot] = -1
        m.slot = -1


@_inline
def empty(x: FleetRules, s: Tables, h: Handoff | None, e: int) -> None:
    """An engine has nothing in its memory, in its queues, and under way."""
    g = s.engine[e]
    g.free, g.slots = x.pool, x.pool * x.size
    g.root = g.first = g.last = -1
    g.decided = g.completed = g.decoding = g.context = g.waiting = g.running = g.stamps = g.fresh = g.back = 0
    g.held = g.computed = g.looks = g.most = g.flying = g.stalled = g.carried = g.ending = 0
    g.outstanding = g.tokens = g.used = g.gone = 0
    g.idle = 1
    s.busy[e] = 0.0
    for i in range(s.ring.shape[1]):
        s.ring[e, i] = -1
    for i in range(2):
        s.final[e, i, 0] = s.owe[e, i, 0] = 0
    if x.caching:
        block, count = s.block[e], x.pool + 1
        for b in range(count):
            block[b].content = -1
            block[b].shares = block[b].previous = block[b].following = 0
            block[b].earlier = b - 1 if b else count - 1
            block[b].later = b + 1 if b < count - 1 else 0
        for place in range(s.bucket.shape[1]):
            s.bucket[e, place, 0] = s.bucket[e, place, 1] = 0
    if h is not None:
        desk = h.desk[e]
        desk.first = desk.last = desk.landed = desk.final = -1
        desk.announced = desk.coming = desk.held = 0
        desk.began = desk.sent = desk.received = 0.0


@_inline
def join(x: FleetRules, s: Tables, d: Ledger, h: Handoff | None, role: int, state: int, now: float) -> int:
    """One more engine, in a row that nobody has: its number."""
    k, e = d.tally[MEMBERS], 0
    while d.number[e] >= 0:
        e += 1
    d.tally[MEMBERS] += 1
    m = d.member[k]
    m.role, m.slot, m.state, m.foreseen, m.first, m.last = role, e, state, -1, -1, -1
    d.number[e], d.since[k] = k, now
    empty(x, s, h, e)
    s.engine[e].iteration = 0
    return k


@_inline
def wake(s: Tables, d: Ledger, k: int, now: float) -> None:
    """Let an idle engine decide again, because something changed; one that is gone has nothing to decide."""
    m = d.member[k]
    if m.slot < 0:
        return
    g = s.engine[m.slot]
    if g.idle:
        g.idle = 0
        schedule(s, now, DECIDES, STEP, k, m.born)


@_inline
def take(s: Tables, d: Ledger, k: int, r: int) -> None:
    """Engine `k` is responsible for a request."""
    m, t = d.member[k], d.trip[r]
    t.before, t.behind = m.last, -1
    if m.last >= 0:
        d.trip[m.last].behind = r
    else:
        m.first = r
    m.last = r
    g = s.engine[m.slot]
    g.outstanding += 1
    g.tokens += s.request[r].prompt


@_inline
def let_go(s: Tables, d: Ledger, k: int, r: int, now: float) -> None:
    """It is not any more. A drained engine goes with the last one."""
    m, t = d.member[k], d.trip[r]
    if t.before >= 0:
        d.trip[t.before].behind = t.behind
    else:
        m.first = t.behind
    if t.behind >= 0:
        d.trip[t.behind].before = t.before
    else:
        m.last = t.before
    g = s.engine[m.slot]
    g.outstanding -= 1
    g.tokens -= s.request[r].prompt
    if m.state == DRAINING and m.first < 0:
        become(d, k, GONE, now)
