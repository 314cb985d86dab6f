"""What happens when in the compiled fleet: a heap by time, kind and order of scheduling, as SimPy's."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....jit import inner
from ..rules import BARE, CALL
from .tables import Tables

__all__ = ["ARRIVES", "DECIDES", "ENDS", "KIND", "first_arrivals", "pop", "push"]

ENDS, ARRIVES, DECIDES = 1, 2, 3
"""Kinds of events, as in the reference: at one instant they happen in this order."""
KIND = 1 << 60  # above any count of events: one integer holds the kind and, below it, the order of scheduling

_inline: Any = inner(**BARE)
_call: Any = inner(**CALL)


@_inline
def _sooner(event: Any, times: Any, time: float, order: int, k: int) -> bool:
    return time < times[k] or (time == times[k] and order < event[k, 0])


@_call
def _push(event: Any, times: Any, tally: Any, time: float, kind: int, what: int) -> None:
    """Something is to happen."""
    order = kind * KIND + tally[1]
    tally[1] += 1
    k = tally[0]
    tally[0] += 1
    while k:
        up = (k - 1) >> 1
        if not _sooner(event, times, time, order, up):
            break
        times[k], event[k, 0], event[k, 1] = times[up], event[up, 0], event[up, 1]
        k = up
    times[k], event[k, 0], event[k, 1] = time, order, what


@_call
def _pop(event: Any, times: Any, tally: Any) -> int:
    """Take the next event out: what happens."""
    what = event[0, 1]
    tally[0] -= 1
    n = tally[0]
    time, order, moved = times[n], event[n, 0], event[n, 1]
    k = 0
    while 2 * k + 1 < n:
        below = 2 * k + 1
        if below + 1 < n and _sooner(event, times, times[below + 1], event[below + 1, 0], below):
            below += 1
        if _sooner(event, times, time, order, below):
            break
        times[k], event[k, 0], event[k, 1] = times[below], event[below, 0], event[below, 1]
        k = below
    times[k], event[k, 0], event[k, 1] = time, order, moved
    return what


@_inline
def push(s: Tables, time: float, kind: int, what: int) -> None:
    """Something is to happen."""
    _push(s.event, s.time, s.tally, time, kind, what)


@_inline
def pop(s: Tables) -> int:
    """Take the next event out: what happens."""
    return _pop(s.event, s.time, s.tally)


def first_arrivals(s: Tables, time: float, what: Any) -> None:
    """The first events of a run: arrivals at one time, in order (which is a heap)."""
    n = len(what)
    s.event[:n, 0], s.event[:n, 1], s.time[:n] = ARRIVES * KIND + np.arange(n), what, time
    s.tally[:2] = n
