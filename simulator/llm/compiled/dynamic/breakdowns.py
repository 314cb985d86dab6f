"""Engines that fail and come back, compiled: `fleet.breakdowns.Breakdowns` over the tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....jit import inner
from ..fleet.tables import DECODES, WAITS, FleetRules, Tables
from ..rules import BARE
from ..streams import STEP_LOW
from .events import AGAIN, ARRIVES, BACK, DIES, FAILS, REPAIRED, schedule
from .handoff import forget, row_of
from .members import become, empty, let_go, wake
from .requests import fail
from .tables import DECODE, DOWN, DRAINING, DRAWS, FIRST, GONE, STARTING, UP, ZERO, Handoff, Ledger, Ways
from .transfers import release_sent

__all__ = ["dies", "note_given", "repaired", "serve", "under_repair"]

_inline: Any = inner(**BARE)


@_inline
def note_given(x: FleetRules, d: Ledger, runs: Any, low: int, high: int, k: int) -> None:
    """Of the runs of tokens that were noted: their engine, and how many tokens each request was given."""
    for i in range(low, high):
        runs[0, i], runs[3, i] = row_of(d, runs[0, i]), k
        d.trip[runs[0, i]].had += runs[2, i] if x.drafts else runs[2, i] - runs[1, i] + 1


@_inline
def _under_way(s: Tables, d: Ledger, k: int, now: float, clock: Any, state: Any) -> int:
    """The iterations under way give no tokens: one that has begun ends now, others never were. How many never were."""
    e = d.member[k].slot
    g, void = s.engine[e], 0
    for step in range(g.completed + 1, g.decided + 1):
        n = d.row[e, step & 1]
        if clock[0, n] < now:
            clock[1, n] = now
        else:
            state[8, n] = -1
            void += 1
    return void


@_inline
def _given(x: FleetRules, s: Tables, d: Ledger, k: int, runs: Any, n_runs: int) -> int:
    """End the runs of tokens of an engine's requests before the iterations under way: how many runs there are."""
    m, before = d.member[k], n_runs
    g = s.engine[m.slot]
    r = m.first
    while r >= 0:
        q = s.request[r]
        if q.begin >= 0:
            last = min(g.iteration - 1 if q.state == DECODES else q.last, g.iteration - g.flying - 1)
            if last >= q.begin:
                runs[0, n_runs], runs[1, n_runs], runs[2, n_runs] = r, q.begin, last
                n_runs += 1
        r = d.trip[r].behind
    note_given(x, d, runs, before, n_runs, k)
    return n_runs


@_inline
def _anew(x: FleetRules, s: Tables, r: int) -> None:
    """A request is as if it had just come."""
    q = s.request[r]
    q.slot = q.after = q.ahead = q.mark = q.before = q.behind = q.begin = q.child = q.sibling = q.parent = -1
    q.base = q.joined = q.computed = q.awaited = q.owed = q.stamp = q.last = q.resumed = 0
    q.blocks = q.gone = q.published = 0
    q.length, q.state = q.prompt, WAITS
    if x.drafts:
        q.span = 0
        s.drafts.stream[r, STEP_LOW] = 0  # it draws from the beginning of its stream


@_inline
def _waits_no_more(d: Ledger, role: int, r: int) -> None:
    """A request does not wait for an engine of a role any more, if it did, wherever it stands among those that do."""
    other = d.waiting[role, 0]
    while other >= 0 and other != r:
        other = d.trip[other].later
    if other < 0:
        return
    t = d.trip[r]
    if t.earlier >= 0:
        d.trip[t.earlier].later = t.later
    else:
        d.waiting[role, 0] = t.later
    if t.later >= 0:
        d.trip[t.later].earlier = t.earlier
    else:
        d.waiting[role, 1] = t.earlier


@_inline
def _others_let_go(xs: Any, s: Tables, d: Ledger, h: Handoff, dead: int, row: int, now: float) -> None:
    """What others hold of a request, or keep for it, is free: nobody sends or decodes it in this try."""
    sender, receiver, half = h.sender[row], h.receiver[row], len(d.scheduled) + row
    h.sender[row] = h.receiver[row] = -1
    if sender >= 0 and sender != dead:
        release_sent(xs[FIRST], s, d, h, sender, row, now)
    if receiver >= 0 and receiver != dead:
        forget(xs[DECODE], s, d, h, d.member[receiver].slot, half)
        let_go(s, d, receiver, half, now)
        wake(s, d, receiver, now)
    if sender == dead and receiver < 0:
        _waits_no_more(d, DECODE, half)


@_inline
def _retry(
    xs: Any, w: Ways, s: Tables, d: Ledger, h: Handoff | None, calls: Any, dead: int, row: int, now: float
) -> None:
    """A request has lost its engine: send it again or give it up."""
    t = d.trip[row]
    t.retries += 1
    if h is not None:
        _others_let_go(xs, s, d, h, dead, row, now)
    if not w.keep:
        d.begun[row], t.lost = now, t.had
    for half in range(row, len(d.trip), len(d.scheduled)):
        if w.keep:
            s.request[half].prompt += t.had - t.kept
        _anew(xs[FIRST], s, half)
    if w.keep:
        t.kept = t.had
    if h is not None:
        s.request[row].target = s.request[row].prompt + 1
    if np.isnan(d.scheduled[row]):
        d.scheduled[row] = s.times[1, row]
    if t.retries > w.max_retries:
        fail(xs[FIRST], s, d, calls, row, now)
    else:
        schedule(s, now + w.retry_s, ARRIVES, AGAIN, row, ZERO)


@_inline
def dies(
    xs: Any, w: Ways, s: Tables, d: Ledger, h: Handoff | None, calls: Any, tables: Any, n_runs: int, k: int, now: float
) -> int:
    """Engine `k` fails. Its requests are tried again elsewhere. How many runs of tokens there are now."""
    clock, state, runs = tables
    m = d.member[k]
    e, drained = m.slot, m.state == DRAINING
    n_runs = _given(xs[m.role], s, d, k, runs, n_runs)
    s.engine[e].iteration -= _under_way(s, d, k, now, clock, state)
    become(d, k, GONE if drained else DOWN, now)  # one that is being drained was to go anyway: nobody repairs it
    empty(xs[m.role], s, h, e)
    s.engine[e].idle = 0  # it decides nothing before it is back
    m.born += 1
    m.deaths += 1
    r = m.first
    m.first = m.last = -1
    while r >= 0:
        behind = d.trip[r].behind
        _retry(xs, w, s, d, h, calls, k, row_of(d, r), now)
        r = behind
    return n_runs


@_inline
def under_repair(s: Tables, d: Ledger, k: int, repair_s: float, now: float) -> None:
    """An engine that is down comes back after so many seconds, if that is ever."""
    m = d.member[k]
    m.returns = 0
    if m.state == DOWN and repair_s < np.inf:
        m.returns = 1
        schedule(s, now + repair_s, FAILS, REPAIRED, k, m.turns)


@_inline
def repaired(w: Ways, s: Tables, d: Ledger, k: int, now: float) -> None:
    """An engine is repaired and begins to load its model."""
    become(d, k, STARTING, now)
    d.member[k].returns = 0
    schedule(s, now + w.load_s, FAILS, BACK, k, d.member[k].turns)


@_inline
def serve(w: Ways, s: Tables, d: Ledger, k: int, now: float) -> None:
    """An engine serves from now on."""
    become(d, k, UP, now)
    m = d.member[k]
    if w.random and m.foreseen != m.born:  # else it was taken back from being drained, and has its death before it
        m.foreseen = m.born
        schedule(s, now + d.lives[k, m.drawn, 0], FAILS, DIES, k, m.born)
        m.drawn += 1
        d.tally[DRAWS] = max(d.tally[DRAWS], m.drawn)
