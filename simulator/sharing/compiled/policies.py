"""Policies, compiled: see `policy` and `policies`. `given` says for each GPU on offer the app that gets it."""

from __future__ import annotations

import numpy as np
from numba import njit

from ..kernels_gain import largest_gain
from ..kernels_offers import by_app, hand_out, keeps, more
from .gangs import fitting, step
from .lots import lot_kernel
from .near import choose, pool_of
from .view import contention, left_of, left_work, phase_left, remaining, shape_of, speed

__all__ = ["CODES", "assign", "take_near"]

CODES = {
    "fifo": 0, "tiresias": 1, "tiresias-2q": 2, "drf": 3, "optimus": 4, "srsf": 5, "gandiva": 6, "slaq": 7, "srtf": 8,
    "finish-time": 9,
}  # fmt: skip
"""Compiled policies: below 3 apps in order, below 6 GPU by GPU (4: by gain), then the best offer."""

QUEUE_S = 3250.0


@njit(cache=True)
def take_near(c, pool, have, mine, n, out):  # type: ignore[no-untyped-def]
    """`n` GPUs of a mask: the app's own of before (`mine`) first, then the nearest; into the mask `out`."""
    got = 0
    rest = pool.copy()
    near = have.copy()
    for g in range(pool.shape[0]):
        if got < n and pool[g] and mine[g]:
            out[g] = near[g] = True
            rest[g] = False
            got += 1
    return got + choose(c, rest, n - got, near, out)


@njit(cache=True)
def _drawn(size, seed, decision):  # type: ignore[no-untyped-def]
    """All GPUs in order of their lots."""
    lots = np.empty(size, np.uint64)
    for g in range(size):
        lots[g] = lot_kernel(seed, decision, g)
    return np.argsort(lots, kind="mergesort")


@njit(cache=True)
def _in_order(c, w, s, code, now, pool, apps, drawn, given):  # type: ignore[no-untyped-def]
    start, gpus = by_app(s, apps)
    key, room = np.empty(apps.shape[0]), np.empty(apps.shape[0], np.int64)
    has, out = np.empty(2 * given.shape[0], np.int64), np.empty(given.shape[0], np.int64)
    for i in range(apps.shape[0]):
        a = apps[i]
        room[i] = s.room[a] - (s.n_gpus[a] - s.over[a])
        if code == 1:
            key[i] = s.attained[a]
        else:
            key[i] = (1e12 if code == 2 and s.attained[a] >= QUEUE_S else 0.0) + w.arrival[a]
    while pool.total[0] > 0:
        first = -1
        for i in range(apps.shape[0]):
            if room[i] > 0 and (first < 0 or key[i] < key[first]):
                least = s.least[apps[i]] - (s.n_gpus[apps[i]] - s.over[apps[i]])
                if min(room[i], pool.total[0]) >= least:
                    first = i
        if first < 0:
            break
        a, mine = apps[first], gpus[start[first] : start[first + 1]]
        kept = s.n_gpus[a] - s.over[a]
        n = fitting(w, s, a, now, kept, min(room[first], pool.total[0]))
        room[first] = 0
        if n <= 0 or n + kept < s.least[a]:
            continue
        got = more(c, s, pool, mine, n, drawn, has, keeps(s, mine, has), out)
        hand_out(c, pool, out[:got], a, given)


@njit(cache=True)
def _key(w, s, code, a, n, left_s):  # type: ignore[no-untyped-def]
    if code == 3:
        return float(n)
    return left_s


@njit(cache=True)
def _gpu_by_gpu(c, w, s, code, now, pool, apps, drawn, given):  # type: ignore[no-untyped-def]
    start, gpus = by_app(s, apps)
    count, size = apps.shape[0], given.shape[0]
    able = np.empty(count, np.int64)  # positions of those that could use more
    n_able = 0
    kept, has = np.empty(count, np.int64), np.empty(count, np.int64)
    key, left_s = np.empty(count), np.zeros(count)
    last, link = np.full(count, -1, np.int64), np.empty(size, np.int64)  # GPUs given to each, chained
    near, out = np.empty(2 * size, np.int64), np.empty(size, np.int64)
    for i in range(count):
        a = apps[i]
        kept[i] = has[i] = s.n_gpus[a] - s.over[a]
        if s.room[a] > kept[i]:
            able[n_able] = i
            n_able += 1
            if code == 5:
                left_s[i] = left_work(w, s, a, now)
            key[i] = _key(w, s, code, a, has[i], left_s[i])
    while pool.total[0] > 0 and n_able > 0:
        at = 0
        for x in range(1, n_able):
            if key[able[x]] < key[able[at]]:
                at = x
        i = able[at]
        a = apps[i]
        n = step(w, s, a, now, has[i], s.room[a] - has[i])
        if n < 1 or pool.total[0] < n:
            able[at : n_able - 1] = able[at + 1 : n_able].copy()
            n_able -= 1
            continue
        mine = gpus[start[i] : start[i + 1]]
        n_near = keeps(s, mine, near)
        g = last[i]
        while g >= 0:
            near[n_near] = g
            n_near += 1
            g = link[g]
        got = more(c, s, pool, mine, n, drawn, near, n_near, out)
        for g in out[:got]:
            link[g] = last[i]
            last[i] = g
        hand_out(c, pool, out[:got], a, given)
        has[i] += got
        key[i] = _key(w, s, code, a, has[i], left_s[i])


@njit(cache=True)
def _score(c, w, s, code, a, now, left_s, gpus, lease_s, counts, groups):  # type: ignore[no-untyped-def]
    n, least = gpus.shape[0], s.least[a]
    n_groups, racks = shape_of(c, gpus, counts, groups)
    groups = groups[:n_groups]
    if code >= 8:
        seconds = remaining(w, s, a, now, left_s, n, groups, racks, least)
        return -seconds if code == 8 else (now - w.arrival[a] + seconds) / (contention(w, s, a, now) * w.alone[a])
    pace = speed(w, s, a, n, groups, racks, least)
    if code == 6:
        return pace / min(n, s.room[a])
    p = w.phases[a] + s.phase[a]
    left = 0.0
    for e in range(w.entries[p], w.entries[p + 1]):
        if s.alive[e]:
            left += left_of(s, e, now)
    done = min(1.0, pace * lease_s / left) if left > 0 else 1.0
    fall = 0.0
    for e in range(w.entries[p], w.entries[p + 1]):
        if s.alive[e]:
            before = 1.0 - left_of(s, e, now) / w.work[e]
            after = before + done * (1.0 - before)
            start, end, rate = w.loss[e]
            fall += (end + (start - end) * np.exp(-rate * before)) - (end + (start - end) * np.exp(-rate * after))
    return fall


@njit(cache=True)
def _best_offer(c, w, s, code, now, pool, apps, drawn, given, lease_s):  # type: ignore[no-untyped-def]
    start, gpus = by_app(s, apps)
    count, size = apps.shape[0], given.shape[0]
    able = np.empty(count, np.int64)  # positions of those that could use more
    n_able = most = 0
    for i in range(count):
        room = s.room[apps[i]] - (s.n_gpus[apps[i]] - s.over[apps[i]])
        if room > 0:
            able[n_able] = i
            n_able += 1
            most = max(most, min(room, pool.total[0]))
    score, left_s = np.zeros(count), np.zeros(count)
    n_offer = np.zeros(count, np.int64)  # 0: it has no offer, or one that others have taken of
    offer = np.empty((n_able, most), np.int32)
    row = np.empty(count, np.int64)
    for x in range(n_able):
        row[able[x]] = x
        if code >= 8:
            left_s[able[x]] = phase_left(w, s, apps[able[x]], 0, now)
    has, out = np.empty(2 * size, np.int64), np.empty(size, np.int64)
    counts, groups = np.zeros(c.n_machines, np.int64), np.empty(c.n_machines, np.int64)
    while pool.total[0] > 0:
        best, left = -1, 0
        for x in range(n_able):
            i = able[x]
            a, mine = apps[i], gpus[start[i] : start[i + 1]]
            if n_offer[i] == 0:
                kept = s.n_gpus[a] - s.over[a]
                n = fitting(w, s, a, now, kept, min(s.room[a] - kept, pool.total[0]))
                if n <= 0 or n + kept < s.least[a]:
                    continue  # nor will it ever be able: the pool only shrinks
                n = more(c, s, pool, mine, n, drawn, has, keeps(s, mine, has), out)
                offer[row[i], :n] = out[:n]
                n_offer[i] = n
                theirs = mine if code == 9 else has[: kept + n]
                score[i] = _score(c, w, s, code, a, now, left_s[i], theirs, lease_s, counts, groups)
            able[left] = i
            left += 1
            if best < 0 or score[i] > score[best] or (score[i] == score[best] and n_offer[i] > n_offer[best]):
                best = i
        n_able = left
        if best < 0:
            break
        hand_out(c, pool, offer[row[best], : n_offer[best]], apps[best], given)
        left = 0
        for x in range(n_able):
            i = able[x]
            if i != best:
                able[left] = i
                left += 1
                for k in range(n_offer[i]):
                    if not pool.mask[offer[row[i], k]]:
                        n_offer[i] = 0
                        break
        n_able = left


@njit(cache=True)
def assign(c, w, s, code, now, offered, apps, lease_s, blind, seed, decision, given):  # type: ignore[no-untyped-def]
    """Who gets the GPUs on offer; `given` is −1 where nobody."""
    pool = pool_of(c, offered.copy())
    drawn = _drawn(offered.shape[0], seed, decision) if blind else np.empty(0, np.int64)
    given[:] = -1
    if code < 3:
        _in_order(c, w, s, code, now, pool, apps, drawn, given)
    elif code == 4:
        largest_gain(c, w, s, now, pool, apps, drawn, given)
    elif code < 6:
        _gpu_by_gpu(c, w, s, code, now, pool, apps, drawn, given)
    else:
        _best_offer(c, w, s, code, now, pool, apps, drawn, given, lease_s)
