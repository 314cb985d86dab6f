"""What policies do with GPUs on offer, compiled: what an app has, what it would be given next, and handing it out."""

from __future__ import annotations

import numpy as np

from ....jit import inner
from .near import draw, nearest, put_back
from .plain import copied

__all__ = ["by_app", "hand_out", "keeps", "more"]


@inner
def by_app(s, apps):  # type: ignore[no-untyped-def]
    """GPUs of each app, ascending, one app after the other, and where the GPUs of each begin."""
    count = apps.shape[0]
    start = np.zeros(count + 1, np.int64)
    for i in range(count):
        s.place[apps[i]] = i
        start[i + 1] = start[i] + s.n_gpus[apps[i]]
    end = copied(start[:count])
    gpus = np.empty(start[count], np.int64)
    for g in range(s.owner.shape[0]):
        if s.owner[g] >= 0:
            i = s.place[s.owner[g]]
            gpus[end[i]] = g
            end[i] += 1
    return start, gpus


@inner
def keeps(s, mine, has):  # type: ignore[no-untyped-def]
    """List in `has` those of an app's GPUs that are not on offer; returns how many."""
    n = 0
    for g in mine:
        if not s.lapsed[g]:
            has[n] = g
            n += 1
    return n


@inner
def more(c, s, pool, mine, n, drawn, has, n_has, out):  # type: ignore[no-untyped-def]
    """List in `out` up to `n` GPUs of a pool: the app's own of before first, then the nearest to them and to those in
    `has` (which gains them), or, where GPUs are drawn (`drawn`: in order of their lots), the first of those."""
    got = 0
    for g in mine:
        if got < n and s.lapsed[g] and pool.mask[g]:
            out[got] = has[n_has + got] = g
            got += 1
    own = got
    draw(c, pool, out[:own])
    if drawn.shape[0] == 0:
        got += nearest(c, pool, n - got, has[: n_has + got], out[got:])
    else:
        for g in drawn:
            if got == n:
                break
            if pool.mask[g]:
                out[got] = g
                got += 1
    put_back(c, pool, out[:own])
    for k in range(own, got):
        has[n_has + k] = out[k]
    return got


@inner
def hand_out(c, pool, gpus, a, given):  # type: ignore[no-untyped-def]
    """GPUs of a pool are an app's."""
    for g in gpus:
        given[g] = a
    draw(c, pool, gpus)
