"""`divide`: an app's GPUs over its jobs, compiled: see `split.split` and `reference`."""

from __future__ import annotations

import numpy as np
from numba import njit

from .kernels_near import choose, level_of
from .kernels_view import left_of

__all__ = ["account", "divide", "give", "take"]


@njit(cache=True)
def account(s, a, now):  # type: ignore[no-untyped-def]
    """Count the GPU seconds that an app has had."""
    s.attained[a] += s.n_gpus[a] * (now - s.since[a])
    s.since[a] = now


@njit(cache=True)
def give(s, g, a):  # type: ignore[no-untyped-def]
    """A GPU is an app's, newly or again. The caller has counted the app's time."""
    if s.owner[g] != a:
        s.n_gpus[a] += 1
    elif s.lapsed[g]:
        s.over[a] -= 1
    s.owner[g] = a
    s.lapsed[g] = False


@njit(cache=True)
def take(s, g):  # type: ignore[no-untyped-def]
    """A GPU is nobody's. The caller has counted its owner's time."""
    s.n_gpus[s.owner[g]] -= 1
    if s.lapsed[g]:
        s.over[s.owner[g]] -= 1
    s.owner[g] = -1
    s.lapsed[g] = False
    s.expiry[g] = np.inf


@njit(cache=True)
def _rate(c, w, a, mask, n, cap, gang):  # type: ignore[no-untyped-def]
    if n < max(gang, 1):
        return 0.0
    return min(n, cap) / w.slowdown[a, level_of(c, mask)]


@njit(cache=True)
def divide(c, w, s, a, now):  # type: ignore[no-untyped-def]
    """Divide an app's GPUs over the jobs of its phase; what none of them can use goes back."""
    size = s.owner.shape[0]
    p = w.phases[a] + s.phase[a]
    first, end = w.entries[p], w.entries[p + 1]
    count = 0
    for e in range(first, end):
        count += s.alive[e]
    jobs = np.empty(count, np.int64)
    left = np.empty(count)
    count = 0
    for e in range(first, end):
        if s.alive[e]:
            jobs[count], left[count] = e, left_of(s, e, now)
            count += 1
    masks = np.zeros((count, size), np.bool_)
    held = np.zeros(count, np.int64)
    pool = np.zeros(size, np.bool_)
    for g in range(size):
        if s.owner[g] == a:
            pool[g] = True
            for k in range(count):
                if s.entry[g] == jobs[k]:
                    masks[k, g] = True
                    held[k] += 1
        elif s.entry[g] >= 0 and w.app_of[s.entry[g]] == a:
            s.entry[g] = -1
    untouched = np.zeros(count, np.bool_)
    for k in range(count):
        e = jobs[k]
        if held[k] < w.gang[e]:
            masks[k, :] = False
            held[k] = 0
        untouched[k] = held[k] == s.gpus[e]
        for g in range(size):
            if masks[k, g]:
                pool[g] = False
    spare = 0
    for g in range(size):
        spare += pool[g]
    by_work = np.argsort(-left, kind="mergesort")
    counts = held.copy()
    for k in by_work:
        if counts[k] == 0 and w.gang[jobs[k]] <= spare:
            counts[k] = w.gang[jobs[k]]
            spare -= counts[k]
    while spare > 0:
        least = -1
        for k in by_work:
            if 0 < counts[k] < w.cap[jobs[k]] and (least < 0 or counts[k] < counts[least]):
                least = k
        if least < 0:
            break
        counts[least] += 1
        spare -= 1
    # those who get the most choose first; of equals the one with the most work left, then the lowest number
    place = np.empty(count, np.int64)
    for i in range(count):
        place[by_work[i]] = i
    chosen = np.argsort(-(counts - held) * (count + 1) + place, kind="mergesort")
    for k in chosen:
        more = counts[k] - held[k]
        if more <= 0:
            continue
        e = jobs[k]
        got = np.zeros(size, np.bool_)
        choose(c, pool, more, masks[k], got)
        if held[k] > 0 and untouched[k]:
            grown = masks[k] | got
            old = _rate(c, w, a, masks[k], held[k], w.cap[e], w.gang[e])
            new = _rate(c, w, a, grown, held[k] + more, w.cap[e], w.gang[e])
            if left[k] / new + (w.checkpoint + w.container) >= left[k] / old:
                continue
        for g in range(size):
            if got[g]:
                masks[k, g] = True
                pool[g] = False
                held[k] += 1
    for k in range(count):
        e = jobs[k]
        same = held[k] == s.gpus[e]
        for g in range(size):
            if masks[k, g]:
                same = same and s.entry[g] == e
                s.entry[g] = e
        if same:
            continue
        if s.gpus[e] > 0 and s.given[e] == now:
            s.placed[a, s.near[e]] -= 1  # divided twice in an instant: the first was not carried out
        s.left[e] = left[k]
        s.gpus[e] = held[k]
        s.given[e] = now
        if held[k] > 0:
            up = now if w.kept else now + w.container
            if w.kept:
                for g in range(size):
                    if masks[k, g]:
                        up = max(up, s.ready[g])
            s.resumes[e] = up + (w.checkpoint if s.begun[e] < now else 0.0)
            s.rate[e] = _rate(c, w, a, masks[k], held[k], w.cap[e], w.gang[e])
            s.begun[e] = min(s.begun[e], now)
            s.near[e] = level_of(c, masks[k])
            s.placed[a, s.near[e]] += 1
            s.finish[e] = now + (s.resumes[e] + s.left[e] / s.rate[e] - now)
        else:
            s.rate[e], s.resumes[e], s.finish[e] = 0.0, now, np.inf
    account(s, a, now)
    for g in range(size):
        if pool[g]:
            s.entry[g] = -1
            take(s, g)
