"""`divide`: an app's GPUs over its jobs, compiled: see `split.split` and `reference`."""

from __future__ import annotations

import numpy as np

from ....jit import inner
from .learning import measure
from .near import draw, level_among, level_between, nearest, pool_of
from .plain import copied
from .queue import lease, schedule, unlease
from .varying import set_off
from .view import left_at

__all__ = ["account", "divide", "give", "take"]


@inner
def account(attained, n_gpus, since, a, now):  # type: ignore[no-untyped-def]
    """Count the GPU seconds that an app has had."""
    attained[a] += n_gpus[a] * (now - since[a])
    since[a] = now


@inner
def give(s, given, until_s):  # type: ignore[no-untyped-def]
    """GPUs are their apps', newly or again (`given`: app, or −1). The caller has counted the apps' time."""
    owner, lapsed, n_gpus, over = s.owner, s.lapsed, s.n_gpus, s.over
    expiry, after, before = s.expiry, s.after, s.before
    for g in range(given.shape[0]):
        a = given[g]
        if a < 0:
            continue
        if owner[g] != a:
            n_gpus[a] += 1
        elif lapsed[g]:
            over[a] -= 1
        owner[g] = a
        lapsed[g] = False
        lease(expiry, after, before, g, until_s)


@inner
def take(s, gpus):  # type: ignore[no-untyped-def]
    """GPUs of a list are nobody's. The caller has counted their owners' time."""
    owner, entry, lapsed, n_gpus, over = s.owner, s.entry, s.lapsed, s.n_gpus, s.over
    expiry, after, before = s.expiry, s.after, s.before
    for g in gpus:
        n_gpus[owner[g]] -= 1
        if lapsed[g]:
            over[owner[g]] -= 1
        owner[g] = entry[g] = -1
        lapsed[g] = False
        unlease(expiry, after, before, g)


@inner
def _start(gang, jobs, left, counts, spare):  # type: ignore[no-untyped-def]
    """Jobs without GPUs get their gangs, the one with the most work left first; returns what remains to be dealt."""
    while spare > 0:
        most = -1
        for k in range(jobs.shape[0]):
            # GPUs only get fewer: a gang that does not fit once never will
            if counts[k] == 0 and gang[jobs[k]] <= spare and (most < 0 or left[k] > left[most]):
                most = k
        if most < 0:
            break
        counts[most] = gang[jobs[most]]
        spare -= counts[most]
    return spare


@inner
def _deal(cap, jobs, left, counts, spare):  # type: ignore[no-untyped-def]
    """What remains goes one by one to the job with the fewest, of equals to the one with the most work left."""
    while spare > 0:
        fewest, able = 1 << 60, 0
        for k in range(jobs.shape[0]):
            if 0 < counts[k] < cap[jobs[k]] and counts[k] <= fewest:
                able = 1 if counts[k] < fewest else able + 1
                fewest = counts[k]
        if able == 0:
            break
        if able <= spare:  # one for each
            for k in range(jobs.shape[0]):
                if counts[k] == fewest and counts[k] < cap[jobs[k]]:
                    counts[k] += 1
            spare -= able
            continue
        for _ in range(spare):
            most = -1
            for k in range(jobs.shape[0]):
                if counts[k] == fewest and counts[k] < cap[jobs[k]] and (most < 0 or left[k] > left[most]):
                    most = k
            counts[most] += 1
        spare = 0


@inner
def _apply(c, w, s, a, e, left, gpus, now):  # type: ignore[no-untyped-def]
    """A job goes on with other GPUs than before, or with none."""
    if s.gpus[e] > 0 and s.given[e] == now:
        s.placed[a, s.near[e]] -= 1  # divided twice in an instant: the first was not carried out
    s.left[e] = left
    s.gpus[e] = gpus.shape[0]
    s.given[e] = now
    s.timed[e] = 0
    if gpus.shape[0] == 0:
        s.rate[e], s.resumes[e] = 0.0, now
        schedule(s.finish, s.queue, s.queued, s.number, e, np.inf)
        return
    up = now if w.kept else now + w.container
    if w.kept:
        for g in gpus:
            up = max(up, s.ready[g])
    s.resumes[e] = up + (w.checkpoint if s.begun[e] < now else 0.0)
    level = level_among(c, gpus)
    s.rate[e] = min(gpus.shape[0], w.cap[e]) / w.slowdown[a, level]
    s.begun[e], s.near[e] = min(s.begun[e], now), level
    s.placed[a, level] += 1
    end = set_off(w, s, e, gpus) if w.varies else s.resumes[e] + s.left[e] / s.rate[e]
    schedule(s.finish, s.queue, s.queued, s.number, e, end)


@inner
def divide(c, w, s, a, now):  # type: ignore[no-untyped-def]
    """Divide an app's GPUs over the jobs of its phase; what none of them can use goes back."""
    size, n = s.owner.shape[0], s.n_gpus[a]
    p = w.phases[a] + s.phase[a]
    first, end = w.entries[p], w.entries[p + 1]
    if w.learns:
        measure(w, s, a, now)
    count = s.jobs[a]
    jobs, left = np.empty(count, np.int64), np.empty(count)
    number = np.full(end - first, -1, np.int64)  # of an entry: its position in `jobs`
    alive, at_resumes, resumes, rate, owner, entry = s.alive, s.left, s.resumes, s.rate, s.owner, s.entry
    slot, machine, rack = c.slot, c.machine, c.rack
    k = 0
    for e in range(first, end):
        if alive[e]:
            jobs[k], left[k], number[e - first] = e, left_at(at_resumes, resumes, rate, e, now), k
            k += 1
    mine, of = np.empty(n, np.int64), np.full(n, -1, np.int64)  # GPUs, ascending, and the job that has each
    held, level, lead = np.zeros(count, np.int64), np.zeros(count, np.int64), np.empty(count, np.int64)
    i = 0
    for g in range(size):
        if owner[g] == a:
            mine[i] = g
            if entry[g] >= first:
                k = of[i] = number[entry[g] - first]
                if k >= 0:
                    if held[k] == 0:
                        lead[k] = g
                    level[k] = max(level[k], level_between(slot, machine, rack, lead[k], g))
                    held[k] += 1
            i += 1
    untouched, other = np.empty(count, np.bool_), np.empty(count, np.bool_)
    for k in range(count):
        if held[k] < w.gang[jobs[k]]:
            held[k] = 0
        untouched[k] = held[k] == s.gpus[jobs[k]]
        other[k] = not untouched[k]
    mask = np.zeros(size, np.bool_)
    for i in range(n):
        if of[i] < 0 or held[of[i]] == 0:
            of[i] = -1
            mask[mine[i]] = True
    pool = pool_of(c, mask)
    counts = copied(held)
    if pool.total[0] > 0:
        _deal(w.cap, jobs, left, counts, _start(w.gang, jobs, left, counts, pool.total[0]))
    wanting, n_wanting = np.empty(count, np.int64), 0
    for k in range(count):
        if counts[k] > held[k]:
            wanting[n_wanting] = k
            n_wanting += 1
    more, has = np.empty(n, np.int64), np.empty(n, np.int64)
    for turn in range(n_wanting):
        # those who get the most choose first; of equals the one with the most work left, then the lowest number
        best = turn
        for x in range(turn + 1, n_wanting):
            k, b = wanting[x], wanting[best]
            ahead = counts[k] - held[k] - (counts[b] - held[b])
            if ahead > 0 or (ahead == 0 and (left[k] > left[b] or (left[k] == left[b] and k < b))):
                best = x
        wanting[turn], wanting[best] = wanting[best], wanting[turn]
        k = wanting[turn]
        e, had = jobs[k], 0
        runs, old = held[k] > 0 and untouched[k], 0.0
        slow, cap = w.split_slowdown[a], w.cap[e]
        if runs:  # most would not grow even on GPUs as near as the pool can have them
            near, wanted = level[k], counts[k] - held[k]
            if wanted > pool.in_machine[c.machine[lead[k]]]:
                near = max(near, 2 if wanted <= pool.in_rack[c.rack[lead[k]]] else 3)
            new, old = min(counts[k], cap) / slow[near], min(held[k], cap) / slow[level[k]]
            if left[k] / new + (w.checkpoint + w.container) >= left[k] / old:
                continue
        for i in range(n):
            if of[i] == k:
                has[had] = mine[i]
                had += 1
        got = nearest(c, pool, counts[k] - held[k], has[:had], more)
        for x in range(got):
            has[had + x] = more[x]
        if runs:
            new = min(had + got, cap) / slow[level_among(c, has[: had + got])]
            if left[k] / new + (w.checkpoint + w.container) >= left[k] / old:
                continue
        draw(c, pool, more[:got])
        for x in range(got):
            i = 0
            while mine[i] != more[x]:
                i += 1
            of[i] = k
        other[k] = True
    account(s.attained, s.n_gpus, s.since, a, now)
    idle = 0
    for i in range(n):
        if of[i] >= 0:
            entry[mine[i]] = jobs[of[i]]
        else:
            idle += 1
    if idle > 0:
        had = 0
        for i in range(n):
            if of[i] < 0:
                has[had] = mine[i]
                had += 1
        take(s, has[:had])
    for k in range(count):
        if other[k]:
            had = 0
            for i in range(n):
                if of[i] == k:
                    has[had] = mine[i]
                    had += 1
            _apply(c, w, s, a, jobs[k], left[k], has[:had], now)
