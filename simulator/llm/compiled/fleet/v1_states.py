"""How requests pass from one state to another under today's vLLM, compiled: they start, decode together, stop, wait."""

from __future__ import annotations

from typing import Any

from .....jit import inner
from ..rules import BARE
from .blocks import release
from .tables import CLOSING, DECODES, RUNS, WAITS, FleetRules, Tables
from .waiting import enqueue

__all__ = ["after_token", "alone", "note_run", "preempt", "starts", "stops", "unlink", "victim"]

_inline: Any = inner(**BARE)


@_inline
def _into_ring(x: FleetRules, s: Tables, e: int, r: int, total: int, target: int) -> None:
    """A request that decodes and has `total` tokens waits for the next step that must look at it."""
    g, q, size = s.engine[e], s.request[r], x.size
    # The sooner of: its next token begins a block, its last token. With caching, also: its token fills a block.
    steps = min((1 - total) % size, target - 1 - total)
    if x.caching and x.deep == 1:
        steps = min(steps, -total % size)
    if x.near:  # also: another block lies behind the window
        steps = max(0, min(steps, x.window + (q.gone + 1) * size - total))
    slot = (g.decided + steps) % size
    first = s.ring[e, slot]
    q.slot, q.after, q.ahead, s.ring[e, slot] = slot, first, -1, r
    if first >= 0:
        s.request[first].ahead = r


@_inline
def _out_of_ring(s: Tables, e: int, r: int) -> None:
    q = s.request[r]
    if q.ahead >= 0:
        s.request[q.ahead].after = q.after
    else:
        s.ring[e, q.slot] = q.after
    if q.after >= 0:
        s.request[q.after].ahead = q.ahead
    q.slot = -1


@_inline
def alone(s: Tables, e: int, r: int) -> None:
    """Take a request out of those that advance by the shared counter, and write its numbers into its own record."""
    g, q = s.engine[e], s.request[r]
    total = q.base + g.decided
    if q.slot >= 0:
        _out_of_ring(s, e, r)
    q.awaited = g.decided - max(g.completed, q.joined - 1)
    q.length, q.computed, q.last = total - q.awaited, total - 1, g.iteration - 1
    g.decoding -= 1
    g.context -= total
    q.state = RUNS
    if q.awaited > 0:
        q.owed = 1
        owe = s.owe[e, g.decided & 1]
        owe[0] += 1
        owe[owe[0]] = r


@_inline
def starts(s: Tables, e: int, r: int) -> None:
    """A request is the last of those that run."""
    g, q = s.engine[e], s.request[r]
    q.before, q.behind, q.stamp, q.state = g.last, -1, g.stamps, RUNS
    g.stamps += 1
    if g.last >= 0:
        s.request[g.last].behind = r
    else:
        g.first = r
    g.last = r
    g.running += 1


@_inline
def unlink(s: Tables, e: int, r: int) -> None:
    """A request is none of those that run."""
    g, q = s.engine[e], s.request[r]
    if q.before >= 0:
        s.request[q.before].behind = q.behind
    else:
        g.first = q.behind
    if q.behind >= 0:
        s.request[q.behind].before = q.before
    else:
        g.last = q.before
    g.running -= 1


@_inline
def stops(x: FleetRules, s: Tables, e: int, r: int) -> None:
    """A request runs no more and has no blocks."""
    g, q = s.engine[e], s.request[r]
    unlink(s, e, r)
    g.held -= q.blocks
    g.computed -= q.computed
    release(x, s, e, r)


@_inline
def victim(x: FleetRules, s: Tables, e: int) -> int:
    """Who is preempted next."""
    worst = s.engine[e].last
    if x.priority:
        r = s.request[worst].before
        while r >= 0:
            p, q = s.request[worst], s.request[r]
            if q.priority > p.priority or (q.priority == p.priority and q.order > p.order):
                worst = r
            r = q.before
    return worst


@_inline
def preempt(x: FleetRules, s: Tables, e: int, v: int) -> None:
    """A request loses its blocks and waits, under first come, first served before all others."""
    g, q = s.engine[e], s.request[v]
    if q.state == DECODES:
        alone(s, e, v)
    stops(x, s, e, v)
    q.computed, q.resumed, q.state = 0, 1, WAITS
    if not x.priority:
        g.back -= 1
        q.order = g.back
    enqueue(s.request, s.engine, e, v)
    s.counts[0, v] += 1


@_inline
def after_token(x: FleetRules, s: Tables, e: int, r: int, total: int) -> None:
    """A request that decodes was given a token, the last one, or one after which it goes on."""
    g, q = s.engine[e], s.request[r]
    if total < q.target:
        _into_ring(x, s, e, r, total, q.target)
        return
    g.decoding -= 1
    g.context -= total
    q.state, q.computed, q.owed, q.last = CLOSING, total - 1, 0, g.iteration
    final = s.final[e, g.decided & 1]
    final[0] += 1
    final[final[0]] = r


@_inline
def note_run(q: Any, r: int, runs: Any, n_runs: int) -> int:
    """A request's run of tokens is over: how many runs there are."""
    if q.begin < 0:
        return n_runs
    runs[0, n_runs], runs[1, n_runs], runs[2, n_runs] = r, q.begin, q.last
    return n_runs + 1
