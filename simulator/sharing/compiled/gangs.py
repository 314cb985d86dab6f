"""What an app's gangs let it use of some GPUs, compiled: see `agent.AppView.usable`."""

from __future__ import annotations

import numpy as np

from ....jit import inner
from .plain import falling_order
from .view import left_of

__all__ = ["fitting", "gangs_of", "step", "usable"]


@inner
def gangs_of(w, s, a, now):  # type: ignore[no-untyped-def]
    """Gangs of an app's jobs and what each can use beyond its gang, those that have GPUs first, then the longest; none
    if no job needs more than one GPU, for then they do not matter."""
    p = w.phases[a] + s.phase[a]
    count = s.jobs[a]
    gang, more = np.empty(count, np.int64), np.empty(count, np.int64)
    if not s.gangs[a]:
        return gang[:0], more[:0]
    left, entry = np.empty(count), np.empty(count, np.int64)
    count = 0
    for e in range(w.entries[p], w.entries[p + 1]):
        if s.alive[e]:
            left[count], entry[count] = left_of(s, e, now), e
            count += 1
    by_work = falling_order(left[:count])
    k = 0
    for waits in range(2):
        for i in by_work:
            e = entry[i]
            if (s.gpus[e] == 0) == (waits == 1):
                gang[k], more[k] = w.gang[e], w.cap[e] - w.gang[e]
                k += 1
    return gang, more


@inner
def usable(gang, more, n):  # type: ignore[no-untyped-def]
    """`AppView.usable` of jobs whose gangs matter."""
    spare, room = n, 0
    for k in range(gang.shape[0]):
        if gang[k] <= spare:
            spare -= gang[k]
            room += more[k]
    return n - max(0, spare - room)


@inner
def fitting(w, s, a, now, kept, n):  # type: ignore[no-untyped-def]
    """How many of `n` GPUs more an app can use."""
    if not s.gangs[a]:
        return n
    gang, more = gangs_of(w, s, a, now)
    return usable(gang, more, kept + n) - kept


@inner
def step(w, s, a, now, has, room):  # type: ignore[no-untyped-def]
    """The number in `policy.offers.more`."""
    if not s.gangs[a]:
        return min(1, room)
    gang, more = gangs_of(w, s, a, now)
    for n in range(1, room + 1):
        if usable(gang, more, has + n) == has + n:
            return n
    return 0
