"""The schedulers of prefill and decode engines, compiled: `fleet.handoff.PrefillScheduler` and `DecodeScheduler`.

With pools every request has two records: its own row r at the engine that processes its prompt, and its second half,
row n + r, at the one that decodes. Each half has blocks, neighbours and numbers of its own, so both engines keep it as
any other request.

A prefill engine wants one token of each. When it is there, the half runs no more, but its blocks are kept until
`transfers.release_sent`. A decode engine's half goes from state to state:

- ``ANNOUNCED`` (`announce`): it waits in the engine's line, first come, first served.
- ``COMES``: at one of the engine's decisions (`admit_announced`) it got blocks, and its transfer was asked for there.
- It has landed (`arrived`), and runs from the engine's next decision on, its prompt computed and its first token known.

With a buffer it is announced only when its transfer has ended, and runs as soon as it gets blocks. Those that run come
first in a step, then, if nobody was preempted, those that were preempted before, and only if none of these waits those
that are announced.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .....jit import inner
from ..fleet.blocks import cached_prefix, publish, release, share, take
from ..fleet.tables import DONE, FleetRules, Tables
from ..fleet.v1 import admit, run_first, settle
from ..fleet.v1_states import note_run, starts, stops, unlink
from ..rules import BARE
from .tables import Handoff, Ledger
from .transfers import transfer

__all__ = ["admit_announced", "announce", "arrived", "complete_half", "decide_half", "forget", "row_of"]

ANNOUNCED, COMES = np.int64(10), np.int64(11)
"""States of a second half before it runs, beside those of `fleet.tables`."""

_inline: Any = inner(**BARE)


@_inline
def row_of(d: Ledger, half: int) -> int:
    """The request of a half; without pools a request is its own."""
    n = len(d.scheduled)
    return half - n if half >= n else half


@_inline
def announce(s: Tables, d: Ledger, h: Handoff, e: int, r: int) -> None:
    """A decode engine hears of a request whose first token is there."""
    desk, g, q = h.desk[e], s.engine[e], s.request[r]
    d.trip[r].later = -1
    if desk.last >= 0:
        d.trip[desk.last].later = r
    else:
        desk.first = r
    desk.last = r
    desk.announced += 1
    q.order, q.length, q.state = g.fresh, q.prompt + 1, ANNOUNCED
    g.fresh += 1


@_inline
def arrived(d: Ledger, h: Handoff, e: int, r: int) -> None:
    """All blocks of a request are there: it decodes from the next decision on."""
    desk = h.desk[e]
    desk.coming -= 1
    d.trip[r].later = -1
    if desk.final >= 0:
        d.trip[desk.final].later = r
    else:
        desk.landed = r
    desk.final = r


@_inline
def forget(x: FleetRules, s: Tables, d: Ledger, h: Handoff, e: int, r: int) -> None:
    """A request that was announced will not come; nothing happens if it was not."""
    desk, q = h.desk[e], s.request[r]
    if q.state == COMES:
        release(x, s, e, r)
        desk.coming -= 1
    elif q.state == ANNOUNCED:
        before, other = np.int64(-1), desk.first
        while other != r:
            before, other = other, d.trip[other].later
        if before >= 0:
            d.trip[before].later = d.trip[r].later
        else:
            desk.first = d.trip[r].later
        if desk.last == r:
            desk.last = before
        desk.announced -= 1


@_inline
def _land(x: FleetRules, s: Tables, e: int, r: int) -> None:
    """A request runs whose prompt is computed."""
    g, q = s.engine[e], s.request[r]
    q.computed = q.prompt
    publish(x, s, e, r, q.computed)
    starts(s, e, r)
    g.held += q.blocks
    g.computed += q.computed


@_inline
def _all_land(x: FleetRules, s: Tables, d: Ledger, h: Handoff, e: int) -> None:
    """Those that arrived since the last decision run, behind all others."""
    desk, g = h.desk[e], s.engine[e]
    r = desk.landed
    while r >= 0:
        _land(x, s, e, r)
        s.looked[e, g.looks] = r
        g.looks += 1
        r = d.trip[r].later
    desk.landed = desk.final = -1


@_inline
def admit_announced(x: FleetRules, s: Tables, d: Ledger, h: Handoff, e: int, m: int, now: float) -> int:
    """Blocks for announced requests, in order, until one does not fit: how many are chosen one by one by now."""
    desk, g = h.desk[e], s.engine[e]
    budget = x.budget - g.decoding
    for i in range(m):
        budget -= s.chosen[1, i]
    while desk.announced and g.root < 0 and g.running + desk.coming < x.max_seqs:
        r = desk.first
        q = s.request[r]
        found = free = 0
        if x.caching and not h.buffered:
            found, free = cached_prefix(s, e, r, (q.length - 1) // x.size)
        need = -(-q.length // x.size) - found
        if need + free > g.free - (x.watermark if g.running else 0) or (h.buffered and budget < 1):
            break
        desk.first = d.trip[r].later
        if desk.first < 0:
            desk.last = -1
        desk.announced -= 1
        if x.caching:
            share(s, e, r, found)
        take(x, s, e, r, need)
        if h.buffered:
            _land(x, s, e, r)
            q.mark, s.chosen[0, m], s.chosen[1, m] = m, r, 1
            m += 1
            budget -= 1
        else:
            q.state = COMES
            desk.coming += 1
            transfer(x, s, d, h, row_of(d, r), -(-q.prompt // x.size) - found, now)
    return m


@_inline
def decide_half(
    x: FleetRules, s: Tables, d: Ledger, h: Handoff | None, e: int, now: float, runs: Any, n_runs: int
) -> tuple[int, int, int, int, int, int, int]:
    """Decide a step of an engine, as `fleet.v1.decide`; one of a pool sees to what has landed and what is announced."""
    if h is not None:
        _all_land(x, s, d, h, e)
    n, first, used, preempted = run_first(x, s, e)
    m = first
    if preempted == 0:
        m = admit(x, s, e, m, x.budget - s.engine[e].decoding - used, now)
        if h is not None:
            m = admit_announced(x, s, d, h, e, m, now)
    tokens, chunks, decodes, context, outputs, n_runs = settle(x, s, e, n, first, m, runs, n_runs)
    return tokens, chunks, decodes, context, outputs, preempted, n_runs


@_inline
def complete_half(x: FleetRules, s: Tables, d: Ledger, h: Handoff, e: int, runs: Any, n_runs: int) -> int:
    """The step under way of an engine of a pool ends, the only one: who is done is in ``s.final``; returns the runs
    noted."""
    g, desk = s.engine[e], h.desk[e]
    g.completed += 1
    final = s.final[e, g.completed & 1]
    for i in range(1, final[0] + 1):
        r = final[i]
        q = s.request[r]
        if r < len(d.scheduled):
            unlink(s, e, r)
            g.held -= q.blocks
            g.computed -= q.computed
            desk.held += 1
        else:
            publish(x, s, e, r, q.computed)
            stops(x, s, e, r)
        n_runs = note_run(q, r, runs, n_runs)
        q.state, q.begin = DONE, -1
    return n_runs
