"""All that may happen in a fleet that changes, but for an engine that goes on."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....jit import inner
from ..fleet.tables import Tables
from ..rules import BARE
from .breakdowns import dies, repaired, serve, under_repair
from .events import (
    AGAIN,
    ARRIVES,
    BACK,
    DECIDES,
    DIES,
    FRESH,
    MOVED,
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
)  # fmt: skip
from .growth import add, missing, remove
from .requests import done, give_up, landed, place, wait_no_more
from .tables import ARRIVED, DECODE, DOWN, FIRST, GONE, MEMBERS, ZERO, Handoff, Ledger, Ways

__all__ = ["happens"]

_inline: Any = inner(**BARE)


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
def _arrives(xs: Any, s: Tables, d: Ledger, calls: Any, code: int, k: int, now: float) -> int:
    """The request that is sent to an engine now; -1: none is, since no engine could take it."""
    r = calls[0][d.tally[ARRIVED]] if code == NEXT else k
    if code != AGAIN:
        s.times[0, r] = now
        if calls[6][r]:
            s.counts[3, r] = 1
            done(xs[FIRST], s, d, calls, r, now)
            r = -1
    return r


@_inline
def _next_to_place(d: Ledger, h: Handoff | None) -> tuple[Any, Any]:
    """The first half that waits for an engine where one serves now, and the role; -1: none does."""
    r, role = np.int64(-1), FIRST
    if d.up[FIRST, 0]:
        r = wait_no_more(d, FIRST)
    if h is not None and r < 0 and d.up[DECODE, 0]:
        r, role = wait_no_more(d, DECODE), DECODE
    return r, role


@_inline
def happens(
    xs: Any, w: Ways, s: Tables, d: Ledger, h: Handoff | None, calls: Any, tables: Any, n_runs: int, event: int,
    now: float,
) -> int:  # fmt: skip
    """All that may happen, but for an engine that goes on: how many runs of tokens there are now."""
    code, k, stamp = code_of(event), what_of(event), stamp_of(event)
    to_place = serves = np.int64(-1)
    missed, role = np.int64(0), FIRST
    if code in (NEXT, FRESH, AGAIN):
        to_place = _arrives(xs, s, d, calls, code, k, now)
    elif code == SCALE:
        missed = missing(xs[d.rule[k].role], s, d, k)
    elif code in (DIES, STRIKES):
        struck, lasts = _strikes(d, code, k, stamp)
        if struck >= 0:
            n_runs = dies(xs, w, s, d, h, calls, tables, n_runs, struck, now)
            under_repair(s, d, struck, lasts, now)
    elif code == MOVED:
        if h is not None and d.trip[k].retries == stamp:
            landed(xs, s, d, h, k, now)
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
        if to_place < 0:
            to_place, role = _next_to_place(d, h)  # requests that waited for an engine are routed again, in order
        if to_place >= 0:
            place(xs, s, d, h, calls[7], role, to_place, now)
            to_place = np.int64(-1)
        elif missed > 0:
            serves = add(xs[d.rule[k].role], s, d, h, k, now)
            missed -= 1
        else:
            break
    while missed < 0:
        remove(s, d, d.rule[k].role, now)
        missed += 1
    for role in range(len(d.waiting)):
        give_up(xs, s, d, h, calls, role, now)
    if code == SCALE:
        schedule(s, now + d.rule[k].interval, SCALES, SCALE, k, ZERO)
    elif code == NEXT:
        d.tally[ARRIVED] += 1
        if d.tally[ARRIVED] < len(calls[0]):
            following = calls[0][d.tally[ARRIVED]]
            schedule(s, calls[2][following], ARRIVES, NEXT, ZERO, ZERO)
    return n_runs
