"""Policies, compiled: see `policy`. `given` says for each GPU on offer the app that gets it."""

from __future__ import annotations

import numpy as np

from ....jit import inner, kernel
from .gangs import fitting, step
from .lots import lot_kernel
from .near import choose, pool_of
from .offers import by_app, hand_out, keeps, more
from .plain import copied, fill_with, stable_order
from .view import contention, left_of, left_work, phase_left, remaining, shape_of, speed

__all__ = ["CODES", "assign", "take_near"]

CODES = {
    "fifo": 0, "tiresias": 1, "tiresias-2q": 2, "drf": 3, "srsf": 4, "optimus": 5, "gandiva": 6, "slaq": 7, "srtf": 8,
    "finish-time": 9,
}  # fmt: skip
"""Compiled policies: below 3 apps in order, then the best offer: of the next GPUs only (below 6), without a look at
which these would be (below 5), or of all that an app can use."""

GAIN_ONCE = 10
"""Optimus, if apps are asked once (`LargestGain.once`): the best offer of all that an app can use, too."""

MIGRATES = 6
"""Gandiva gives up GPUs whose lease is over for others that score higher."""

QUEUE_S = 3250.0


@inner
def take_near(c, pool, have, mine, n, out):  # type: ignore[no-untyped-def]
    """`n` GPUs of a mask: the app's own of before (`mine`) first, then the nearest; into the mask `out`."""
    got = 0
    rest = copied(pool)
    near = copied(have)
    for g in range(pool.shape[0]):
        if got < n and pool[g] and mine[g]:
            out[g] = near[g] = True
            rest[g] = False
            got += 1
    return got + choose(c, rest, n - got, near, out)


@inner
def _drawn(size, seed, decision):  # type: ignore[no-untyped-def]
    """All GPUs in order of their lots."""
    lots = np.empty(size, np.uint64)
    for g in range(size):
        lots[g] = lot_kernel(seed, decision, g)
    return stable_order(lots)


@inner
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


@inner
def _pace(c, w, s, a, gpus, counts, groups):  # type: ignore[no-untyped-def]
    """`offers.speed`."""
    if gpus.shape[0] == 0:
        return 0.0
    n_groups, racks = shape_of(c, gpus, counts, groups)
    return speed(w, s, a, gpus.shape[0], groups[:n_groups], racks, s.least[a])


@inner
def _score(c, w, s, code, a, now, left_s, gpus, kept, lease_s, counts, groups):  # type: ignore[no-untyped-def]
    """What an app's offer is worth; `gpus`: all that it would have; the first `kept` it has without it."""
    n = gpus.shape[0]
    if code == 8 or code == 9:
        n_groups, racks = shape_of(c, gpus, counts, groups)
        seconds = remaining(w, s, a, now, left_s, n, groups[:n_groups], racks, s.least[a])
        return -seconds if code == 8 else (now - w.arrival[a] + seconds) / (contention(w, s, a, now) * w.alone[a])
    pace = _pace(c, w, s, a, gpus, counts, groups)
    if code == 5:
        before = _pace(c, w, s, a, gpus[:kept], counts, groups)
        return 1.0 + (pace / before - 1.0) / (n - kept) if before > 0 else np.inf
    if code == GAIN_ONCE:
        before = _pace(c, w, s, a, gpus[:kept], counts, groups)
        return pace / before if before > 0 else np.inf
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
            start, end, rate = w.loss[e, 0], w.loss[e, 1], w.loss[e, 2]
            fall += (end + (start - end) * np.exp(-rate * before)) - (end + (start - end) * np.exp(-rate * after))
    return fall


@inner
def _by_offers(c, w, s, code, now, pool, apps, drawn, given, lease_s, rank):  # type: ignore[no-untyped-def]
    """Each app is offered GPUs; the best offer is taken, and what is left is offered again to those it touched.

    An offer is of all that an app can use, or of as many GPUs as it can use next; these are chosen before offers are
    compared, or, where the offer's worth does not hang on which they are, for the one that gets them. Of offers
    that are worth the same the one with the least `rank` is the best.
    """
    whole, blank = code >= 6, code < 5
    start, gpus = by_app(s, apps)
    count, size = apps.shape[0], given.shape[0]
    able = np.empty(count, np.int64)  # positions of those that could use more
    n_able = most = 0
    has = np.empty(count, np.int64)
    for i in range(count):
        has[i] = s.n_gpus[apps[i]] - s.over[apps[i]]
        room = s.room[apps[i]] - has[i]
        if room > 0:
            able[n_able] = i
            n_able += 1
            most = max(most, min(room, pool.total[0]))
    score, left_s = np.zeros(count), np.zeros(count)
    n_offer = np.zeros(count, np.int64)  # 0: it has no offer, or one that others have taken of
    offer, row = np.empty((n_able, most), np.int32), np.empty(count, np.int64)
    last, link = np.full(count, -1, np.int64), np.empty(size, np.int64)  # GPUs given to each, chained
    for x in range(n_able):
        i = able[x]
        row[i] = x
        if code >= 8:
            left_s[i] = phase_left(w, s, apps[i], np.int64(0), now)
        elif code == 4:
            left_s[i] = left_work(w, s, apps[i], now)
    near, out = np.empty(2 * size, np.int64), np.empty(size, np.int64)
    counts, groups = np.zeros(c.n_machines, np.int64), np.empty(c.n_machines, np.int64)
    while pool.total[0] > 0 and n_able > 0:
        best, left, chosen = -1, 0, -1
        if blank:
            best = able[0]
            for x in range(n_able):
                i = able[x]
                score[i] = float(has[i]) if code == 3 else left_s[i]
                if score[i] < score[best]:
                    best = i
            chosen = best
        for x in range(n_able):
            i = able[x]
            a = apps[i]
            if n_offer[i] == 0 and (not blank or i == chosen):
                if whole:
                    n = fitting(w, s, a, now, has[i], min(s.room[a] - has[i], pool.total[0]))
                    fits = n > 0 and n + has[i] >= s.least[a]
                else:
                    n = step(w, s, a, now, has[i], s.room[a] - has[i])
                    fits = 1 <= n <= pool.total[0]
                if not fits:
                    if i == best:
                        best = -1
                    continue  # nor will it ever be able: the pool only shrinks
                mine = gpus[start[i] : start[i + 1]]
                kept = keeps(s, mine, near)
                g = last[i]
                while g >= 0:
                    near[kept] = g
                    kept += 1
                    g = link[g]
                n = more(c, s, pool, mine, n, drawn, near, kept, out)
                for k in range(n):
                    offer[row[i], k] = out[k]
                n_offer[i] = n
                if not blank:
                    theirs = mine if code == 9 else near[: kept + n]
                    score[i] = _score(c, w, s, code, a, now, left_s[i], theirs, kept, lease_s, counts, groups)
                if code == MIGRATES and kept < mine.shape[0]:
                    kept = keeps(s, mine, near)
                    n = more(c, s, pool, mine[:0], n, drawn, near, kept, out)
                    theirs = near[: kept + n]
                    there = _score(c, w, s, code, a, now, left_s[i], theirs, kept, lease_s, counts, groups)
                    if there > score[i]:
                        score[i] = there
                        for k in range(n):
                            offer[row[i], k] = out[k]
            able[left] = i
            left += 1
            ahead = best < 0 or score[i] > score[best]
            if not blank and (ahead or (score[i] == score[best] and rank[i] < rank[best])):
                best = i
        n_able = left
        if best < 0:
            if blank:
                continue  # the first cannot use what is left; the next is asked
            break
        for k in range(n_offer[best]):
            out[k] = offer[row[best], k]
            link[out[k]] = last[best]
            last[best] = out[k]
        hand_out(c, pool, out[: n_offer[best]], apps[best], given)
        has[best] += n_offer[best]
        n_offer[best] = 0
        left = 0
        for x in range(n_able):
            i = able[x]
            if whole and i == best:
                continue
            able[left] = i
            left += 1
            for k in range(n_offer[i]):
                if not pool.mask[offer[row[i], k]]:
                    n_offer[i] = 0
                    break
        n_able = left


@kernel(rolled=True)
def assign(c, w, s, p, code, now, count, lease_s, blind, ties, seed, decision):  # type: ignore[no-untyped-def]
    """Who gets the GPUs on offer; `given` is −1 where nobody. Ties go to the lower number, or are drawn (`ties`)."""
    given, apps = p.given, p.present[:count]
    pool = pool_of(c, copied(p.offered))
    drawn = _drawn(p.offered.shape[0], seed, decision) if blind else np.empty(0, np.int64)
    fill_with(given, -1)
    if code < 3:
        _in_order(c, w, s, code, now, pool, apps, drawn, given)
    else:
        rank = np.empty(count, np.uint64)
        for i in range(count):
            rank[i] = lot_kernel(seed, decision, given.shape[0] + apps[i]) if ties else np.uint64(apps[i])
        _by_offers(c, w, s, code, now, pool, apps, drawn, given, lease_s, rank)
