"""What happens when in the compiled fleet: a heap by time, kind and order of scheduling, as SimPy's."""

from __future__ import annotations

from typing import Any

import numba

from .compiled_rules import BARE
from .compiled_tables import Tables

__all__ = ["ARRIVES", "DECIDES", "ENDS", "pop", "push"]

ENDS, ARRIVES, DECIDES = 1, 2, 3
"""Kinds of events, as in the reference: at one instant they happen in this order."""
_KIND = 1 << 60

_inline: Any = numba.njit(**BARE)


@_inline
def _sooner(s: Tables, time: float, order: int, k: int) -> bool:
    return time < s.time[k] or (time == s.time[k] and order < s.event[k, 0])


@_inline
def push(s: Tables, time: float, kind: int, what: int) -> None:
    """Something is to happen."""
    order = kind * _KIND + s.tally[1]
    s.tally[1] += 1
    k = s.tally[0]
    s.tally[0] += 1
    while k:
        up = (k - 1) >> 1
        if not _sooner(s, time, order, up):
            break
        s.time[k], s.event[k, 0], s.event[k, 1] = s.time[up], s.event[up, 0], s.event[up, 1]
        k = up
    s.time[k], s.event[k, 0], s.event[k, 1] = time, order, what


@_inline
def pop(s: Tables) -> int:
    """Take the next event out: what happens."""
    what = s.event[0, 1]
    s.tally[0] -= 1
    n = s.tally[0]
    time, order, moved = s.time[n], s.event[n, 0], s.event[n, 1]
    k = 0
    while 2 * k + 1 < n:
        below = 2 * k + 1
        if below + 1 < n and _sooner(s, s.time[below + 1], s.event[below + 1, 0], below):
            below += 1
        if _sooner(s, time, order, below):
            break
        s.time[k], s.event[k, 0], s.event[k, 1] = s.time[below], s.event[below, 0], s.event[below, 1]
        k = below
    s.time[k], s.event[k, 0], s.event[k, 1] = time, order, moved
    return what
