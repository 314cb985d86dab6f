"""Policies, compiled: see `policy` and `policies`. `given` says for each GPU on offer the app that gets it."""

from __future__ import annotations

import numpy as np
from numba import njit

from .kernels_lots import lot_kernel
from .kernels_near import choose
from .kernels_view import contention, left_of, left_work, machines_of, remaining, speed

__all__ = ["CODES", "assign", "take_near"]

CODES = {
    "fifo": 0, "tiresias": 1, "tiresias-2q": 2, "drf": 3, "optimus": 4, "srsf": 5, "gandiva": 6, "slaq": 7, "srtf": 8,
    "finish-time": 9,
}  # fmt: skip
"""Compiled policies: below 3 apps in order, below 6 GPU by GPU, then the best offer."""

QUEUE_S = 3250.0


@njit(cache=True)
def take_near(c, pool, have, mine, n, out):  # type: ignore[no-untyped-def]
    """`n` GPUs of the pool: the app's own of before (`mine`) first, then the nearest; into `out`."""
    size = pool.shape[0]
    got = 0
    rest = pool.copy()
    near = have.copy()
    for g in range(size):
        if got < n and pool[g] and mine[g]:
            out[g] = near[g] = True
            rest[g] = False
            got += 1
    return got + choose(c, rest, n - got, near, out)


@njit(cache=True)
def _take(c, pool, have, mine, n, drawn, out):  # type: ignore[no-untyped-def]
    """`take_near`, or, where GPUs are drawn (`drawn`: in order of their lots), the first of them instead of the
    nearest."""
    if drawn.shape[0] == 0:
        return take_near(c, pool, have, mine, n, out)
    got = 0
    for g in range(pool.shape[0]):
        if got < n and pool[g] and mine[g]:
            out[g] = True
            got += 1
    for g in drawn:
        if got < n and pool[g] and not out[g]:
            out[g] = True
            got += 1
    return got


@njit(cache=True)
def _drawn(offered, seed, decision):  # type: ignore[no-untyped-def]
    """All GPUs in order of their lots."""
    lots = np.empty(offered.shape[0], np.uint64)
    for g in range(offered.shape[0]):
        lots[g] = lot_kernel(seed, decision, g)
    return np.argsort(lots, kind="mergesort")


@njit(cache=True)
def gangs_of(w, s, a, now):  # type: ignore[no-untyped-def]
    """Gangs of an app's jobs and what each can use beyond its gang, those that have GPUs first, then the longest; none
    if no job needs more than one GPU, for then they do not matter."""
    p = w.phases[a] + s.phase[a]
    count = 0
    matter = False
    for e in range(w.entries[p], w.entries[p + 1]):
        if s.alive[e]:
            count += 1
            matter = matter or w.gang[e] > 1
    gang, more = np.empty(count, np.int64), np.empty(count, np.int64)
    if not matter:
        return gang[:0], more[:0]
    left, entry = np.empty(count), np.empty(count, np.int64)
    count = 0
    for e in range(w.entries[p], w.entries[p + 1]):
        if s.alive[e]:
            left[count], entry[count] = left_of(s, e, now), e
            count += 1
    by_work = np.argsort(-left, kind="mergesort")
    k = 0
    for waits in range(2):
        for i in by_work:
            e = entry[i]
            if (s.gpus[e] == 0) == (waits == 1):
                gang[k], more[k] = w.gang[e], w.cap[e] - w.gang[e]
                k += 1
    return gang, more


@njit(cache=True)
def usable(gang, more, n):  # type: ignore[no-untyped-def]
    """`AppView.usable` of jobs whose gangs matter."""
    spare, room = n, 0
    for k in range(gang.shape[0]):
        if gang[k] <= spare:
            spare -= gang[k]
            room += more[k]
    return n - max(0, spare - room)


@njit(cache=True)
def _fitting(w, s, a, now, kept, n):  # type: ignore[no-untyped-def]
    """How many of `n` GPUs more an app can use."""
    gang, more = gangs_of(w, s, a, now)
    return n if gang.shape[0] == 0 else usable(gang, more, kept + n) - kept


@njit(cache=True)
def _step(w, s, a, now, has, room):  # type: ignore[no-untyped-def]
    """`policies._step`."""
    gang, more = gangs_of(w, s, a, now)
    if gang.shape[0] == 0:
        return min(1, room)
    for n in range(1, room + 1):
        if usable(gang, more, has + n) == has + n:
            return n
    return 0


@njit(cache=True)
def _key(c, w, s, code, a, now, n, gang):  # type: ignore[no-untyped-def]
    if code == 0:
        return w.arrival[a]
    if code == 1:
        return s.attained[a]
    if code == 2:
        return (1e12 if s.attained[a] >= QUEUE_S else 0.0) + w.arrival[a]
    if code == 3:
        return float(n)
    if code == 4:
        return -np.inf if n < gang or n == 0 else -((n + 1) / n)
    return left_work(w, s, a, now)


@njit(cache=True)
def _score(c, w, s, code, a, now, gpus, lease_s, counts):  # type: ignore[no-untyped-def]
    gang = s.least[a]
    if code == 9:
        has = s.owner == a
        n, racks = machines_of(c, has, counts)
        ideal = contention(w, s, a, now) * w.alone[a]
        return (now - w.arrival[a] + remaining(w, s, a, now, n, counts, racks, gang)) / ideal
    n, racks = machines_of(c, gpus, counts)
    if code == 8:
        return -remaining(w, s, a, now, n, counts, racks, gang)
    pace = speed(w, s, a, n, counts, racks, gang)
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
def _in_order(c, w, s, code, now, pool, held, apps, drawn, given):  # type: ignore[no-untyped-def]
    keys = np.empty(apps.shape[0])
    for i in range(apps.shape[0]):
        keys[i] = _key(c, w, s, code, apps[i], now, 0, 0)
    free = pool.sum()
    for i in np.argsort(keys, kind="mergesort"):
        if free == 0:
            break
        a = apps[i]
        kept = s.n_gpus[a] - s.over[a]
        n = _fitting(w, s, a, now, kept, min(s.room[a] - kept, free))
        if n <= 0 or n + kept < s.least[a]:
            continue
        out = np.zeros(pool.shape[0], np.bool_)
        free -= _take(c, pool, held == a, (s.owner == a) & s.lapsed, n, drawn, out)
        for g in range(pool.shape[0]):
            if out[g]:
                given[g] = a
                pool[g] = False


@njit(cache=True)
def _gpu_by_gpu(c, w, s, code, now, pool, held, apps, drawn, given):  # type: ignore[no-untyped-def]
    count = apps.shape[0]
    kept = np.zeros(count, np.int64)
    room = np.zeros(count, np.int64)
    gang = np.zeros(count, np.int64)
    has = np.zeros(count, np.int64)
    key = np.zeros(count)
    able = np.zeros(count, np.bool_)
    for i in range(count):
        a = apps[i]
        kept[i] = has[i] = s.n_gpus[a] - s.over[a]
        room[i] = max(0, s.room[a] - kept[i])
        gang[i] = s.least[a]
        able[i] = room[i] > 0
        key[i] = _key(c, w, s, code, a, now, has[i], gang[i])
    free = pool.sum()
    while free > 0:
        first = -1
        for i in range(count):
            if able[i] and (first < 0 or key[i] < key[first]):
                first = i
        if first < 0:
            break
        a = apps[first]
        n = _step(w, s, a, now, has[first], room[first] - (has[first] - kept[first]))
        if n < 1 or free < n:
            able[first] = False
            continue
        out = np.zeros(pool.shape[0], np.bool_)
        free -= _take(c, pool, (held == a) | (given == a), (s.owner == a) & s.lapsed, n, drawn, out)
        for g in range(pool.shape[0]):
            if out[g]:
                given[g] = a
                pool[g] = False
        has[first] += n
        key[first] = _key(c, w, s, code, a, now, has[first], gang[first])


@njit(cache=True)
def _best_offer(c, w, s, code, now, pool, held, apps, drawn, given, lease_s):  # type: ignore[no-untyped-def]
    count, size = apps.shape[0], pool.shape[0]
    able = np.ones(count, np.bool_)
    fresh = np.zeros(count, np.bool_)
    score = np.zeros(count)
    offer = np.zeros((count, size), np.bool_)
    counts = np.zeros(c.n_machines, np.int64)
    for i in range(count):
        able[i] = s.room[apps[i]] - (s.n_gpus[apps[i]] - s.over[apps[i]]) > 0
    while pool.any():
        for i in range(count):
            if not able[i] or fresh[i]:
                continue
            a = apps[i]
            kept = s.n_gpus[a] - s.over[a]
            n = _fitting(w, s, a, now, kept, min(s.room[a] - kept, pool.sum()))
            offer[i, :] = False
            if n <= 0 or n + kept < s.least[a]:
                able[i] = False
                continue
            have = held == a
            _take(c, pool, have, (s.owner == a) & s.lapsed, n, drawn, offer[i])
            score[i] = _score(c, w, s, code, a, now, have | offer[i], lease_s, counts)
            fresh[i] = True
        best = -1
        for i in range(count):
            if able[i] and (
                best < 0 or score[i] > score[best] or (score[i] == score[best] and offer[i].sum() > offer[best].sum())
            ):
                best = i
        if best < 0:
            break
        able[best] = False
        for g in range(size):
            if offer[best, g]:
                given[g] = apps[best]
                pool[g] = False
                for i in range(count):
                    if offer[i, g]:
                        fresh[i] = False


@njit(cache=True)
def assign(c, w, s, code, now, offered, apps, lease_s, blind, seed, decision, given):  # type: ignore[no-untyped-def]
    """Who gets the GPUs on offer; `given` is −1 where nobody."""
    size = offered.shape[0]
    drawn = _drawn(offered, seed, decision) if blind else np.empty(0, np.int64)
    pool = offered.copy()
    held = np.full(size, -1, np.int64)
    for g in range(size):
        if s.owner[g] >= 0 and not s.lapsed[g]:
            held[g] = s.owner[g]
    given[:] = -1
    if code < 3:
        _in_order(c, w, s, code, now, pool, held, apps, drawn, given)
    elif code < 6:
        _gpu_by_gpu(c, w, s, code, now, pool, held, apps, drawn, given)
    else:
        _best_offer(c, w, s, code, now, pool, held, apps, drawn, given, lease_s)
