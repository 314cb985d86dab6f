"""Optimus, compiled: see `largest_gain.LargestGain`."""

from __future__ import annotations

import numpy as np
from numba import njit

from .compiled.gangs import step
from .compiled.view import shape_of, speed
from .kernels_offers import by_app, hand_out, keeps, more

__all__ = ["largest_gain"]


@njit(cache=True)
def _speed(c, w, s, a, gpus, counts, groups):  # type: ignore[no-untyped-def]
    if gpus.shape[0] == 0:
        return 0.0
    n_groups, racks = shape_of(c, gpus, counts, groups)
    return speed(w, s, a, gpus.shape[0], groups[:n_groups], racks, s.least[a])


@njit(cache=True)
def largest_gain(c, w, s, now, pool, apps, drawn, given):  # type: ignore[no-untyped-def]
    """GPUs to whoever gains most by the next ones, as long as there are any."""
    start, gpus = by_app(s, apps)
    count, size = apps.shape[0], given.shape[0]
    able = np.empty(count, np.int64)  # positions of those that could use more
    n_able = most = 0
    has = np.empty(count, np.int64)
    last, link = np.full(count, -1, np.int64), np.empty(size, np.int64)  # GPUs given to each, chained
    for i in range(count):
        has[i] = s.n_gpus[apps[i]] - s.over[apps[i]]
        room = s.room[apps[i]] - has[i]
        if room > 0:
            able[n_able] = i
            n_able += 1
            most = max(most, min(room, pool.total[0]))
    gain = np.zeros(count)
    n_offer = np.zeros(count, np.int64)  # 0: it has no offer, or one that others have taken of
    offer, row = np.empty((n_able, most), np.int32), np.empty(count, np.int64)
    for x in range(n_able):
        row[able[x]] = x
    near, out = np.empty(2 * size, np.int64), np.empty(size, np.int64)
    counts, groups = np.zeros(c.n_machines, np.int64), np.empty(c.n_machines, np.int64)
    while pool.total[0] > 0:
        best, left = -1, 0
        for x in range(n_able):
            i = able[x]
            a = apps[i]
            if n_offer[i] == 0:
                n = step(w, s, a, now, has[i], s.room[a] - has[i])
                if n < 1 or pool.total[0] < n:
                    continue  # nor will it ever be able: the pool only shrinks
                mine = gpus[start[i] : start[i + 1]]
                n_near = keeps(s, mine, near)
                g = last[i]
                while g >= 0:
                    near[n_near] = g
                    n_near += 1
                    g = link[g]
                before = _speed(c, w, s, a, near[:n_near], counts, groups)
                n = more(c, s, pool, mine, n, drawn, near, n_near, out)
                offer[row[i], :n] = out[:n]
                n_offer[i] = n
                after = _speed(c, w, s, a, near[: n_near + n], counts, groups)
                gain[i] = 1.0 + (after / before - 1.0) / n if before > 0 else np.inf
            able[left] = i
            left += 1
            if best < 0 or gain[i] > gain[best]:
                best = i
        n_able = left
        if best < 0:
            break
        for g in offer[row[best], : n_offer[best]]:
            link[g] = last[best]
            last[best] = g
        hand_out(c, pool, offer[row[best], : n_offer[best]], apps[best], given)
        has[best] += n_offer[best]
        n_offer[best] = 0
        for x in range(n_able):
            i = able[x]
            for k in range(n_offer[i]):
                if not pool.mask[offer[row[i], k]]:
                    n_offer[i] = 0
                    break
