"""One auction, compiled: allocation, payments, and which GPUs: see `allocation`, `auction` and `whereabouts`."""

from __future__ import annotations

import numpy as np

from ....jit import inner
from ....simulator.sharing.compiled.near import choose
from ....simulator.sharing.compiled.plain import copied, largest, stable_order
from ..bids import STARVED
from ..lots import lot_kernel
from .bounds import Goods

__all__ = ["drop", "layout", "rounded", "shares_kept", "whereabouts_of"]

MACHINES, RACK = 1, 2
FLOOR, NEAREST, RANDOM = 0, 1, 2
SLACK = 1e-6


@inner
def layout(rack_of_machine, free, start, rows, value):  # type: ignore[no-untyped-def]
    """Machines rack by rack, in a rack those with the fewest free GPUs first, and bids for them.

    Returns
    -------
    (array, Goods)
        Machine at each position, and what is bid for.
    """
    n, n_racks = free.shape[0], largest(rack_of_machine) + 1
    key, most = np.empty(n, np.int64), largest(free) + 1
    for m in range(n):
        key[m] = rack_of_machine[m] * most + free[m]
    at = stable_order(key)
    position = np.empty(n, np.int64)
    rack_free, free_at, rack_at = np.zeros(n_racks, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    for p in range(n):
        position[at[p]] = p
        free_at[p], rack_at[p] = free[at[p]], rack_of_machine[at[p]]
        rack_free[rack_of_machine[at[p]]] += free[at[p]]
    region = _column(rows, np.int64(3))
    for k in range(rows.shape[0]):
        if rows[k, 3] >= 0 and rows[k, 1] == MACHINES:
            region[k] = position[rows[k, 3]]
    goods = Goods(
        start, _column(rows, np.int64(0)), _column(rows, np.int64(1)), _column(rows, np.int64(2)), region, value,
        free_at, rack_at, rack_free,
    )  # fmt: skip
    return at, goods


@inner
def _column(rows, k):  # type: ignore[no-untyped-def]
    out = np.empty(rows.shape[0], np.int64)
    for i in range(rows.shape[0]):
        out[i] = rows[i, k]
    return out


@inner
def shares_kept(value, chosen, without):  # type: ignore[no-untyped-def]
    """What each app keeps of its rows (c), by those that others have `without_each`: `auction.kept_share`."""
    n = chosen.shape[0]
    kept = np.ones(n)
    for i in range(without.shape[0]):
        lost = 0.0
        for k in range(n):
            if without[i, k] >= 0:
                now, then = value[chosen[k]], value[without[i, k]]
                if now > STARVED and then > STARVED:
                    lost += now - then
        kept[i] = min(1.0, np.exp(lost))
    return kept


@inner
def rounded(gpus, rounding, seed, number, app):  # type: ignore[no-untyped-def]
    """`auction.kept_gpus`."""
    if rounding == NEAREST:
        return int(np.floor(gpus + 0.5 + SLACK))
    whole = int(np.floor(gpus + SLACK))
    if rounding == RANDOM and gpus - whole > SLACK:
        drawn = float(lot_kernel(seed, number, app) >> np.uint64(11)) * 2.0**-53
        if drawn < gpus - whole:
            whole += 1
    return whole


@inner
def drop(c, mine, n, keep):  # type: ignore[no-untyped-def]
    """Drop GPUs of a mask until `keep` are left, first those on the machine where there are the fewest."""
    counts = np.zeros(c.n_machines, np.int64)
    for g in range(mine.shape[0]):
        if mine[g]:
            counts[c.machine[g]] += 1
    while n > keep:
        machine = -1
        for m in range(c.n_machines):
            if counts[m] > 0 and (machine < 0 or counts[m] <= counts[machine]):
                machine = m
        for g in range(mine.shape[0] - 1, -1, -1):
            if mine[g] and c.machine[g] == machine:
                mine[g] = False
                break
        counts[machine] -= 1
        n -= 1


@inner
def _stay(c, s, rack_of_machine, free, filled, named, apps, holder, size):  # type: ignore[no-untyped-def]
    """For each machine of the search, the one that its contents go to: `whereabouts._stay`.

    `holder`, `size`: the groups on machines: position in `apps` and GPUs, by machine, in `filled` (first, end).
    """
    n = free.shape[0]
    moved = np.empty(n, np.int64)
    for m in range(n):
        moved[m] = m
    had = np.zeros((apps.shape[0], n), np.int64)  # GPUs on offer that an app had on a machine
    any_had = False
    for g in range(s.owner.shape[0]):
        if s.owner[g] >= 0 and s.lapsed[g]:
            for i in range(apps.shape[0]):
                if apps[i] == s.owner[g]:
                    had[i, c.machine[g]] += 1
                    any_had = True
    if not any_had:
        return moved
    to = np.full(n, -1, np.int64)
    taken = np.zeros(n, np.bool_)
    stays = np.zeros((n, n), np.int64)
    for m in range(n):
        if filled[m, 0] == filled[m, 1] or named[m]:
            continue
        for home in range(n):
            if not named[home] and free[home] == free[m] and rack_of_machine[home] == rack_of_machine[m]:
                for x in range(filled[m, 0], filled[m, 1]):
                    stays[m, home] += min(size[x], had[holder[x], home])
    while True:
        most, best, place = 0, -1, -1
        for m in range(n):
            if to[m] >= 0 or filled[m, 0] == filled[m, 1] or named[m]:
                continue
            for home in range(n):
                if not taken[home] and stays[m, home] > most:
                    most, best, place = stays[m, home], m, home
        if best < 0:
            break
        to[best] = place
        taken[place] = True
    for m in range(n):
        if to[m] < 0 and filled[m, 0] < filled[m, 1] and not named[m] and not taken[m]:
            to[m] = m
            taken[m] = True
    for m in range(n):
        if to[m] < 0 and filled[m, 0] < filled[m, 1] and not named[m]:
            for home in range(n):
                if (
                    not taken[home]
                    and not named[home]
                    and free[home] == free[m]
                    and (rack_of_machine[home] == rack_of_machine[m])
                ):
                    to[m] = home
                    taken[home] = True
                    break
    for m in range(n):
        if to[m] >= 0:
            moved[m] = to[m]
    return moved


@inner
def whereabouts_of(c, s, rack_of_machine, free, offered, apps, order, rows, at, chosen, where):  # type: ignore[no-untyped-def]
    """GPUs of each app, masks by position in `apps`: `whereabouts.whereabouts`."""
    n, size_all = order.shape[0], offered.shape[0]
    n_machines = free.shape[0]
    given = np.zeros((apps.shape[0], size_all), np.bool_)
    pool = copied(offered)
    most = where.shape[1]
    holder, size = np.empty(n * most, np.int64), np.empty(n * most, np.int64)
    filled, named = np.zeros((n_machines, 2), np.int64), np.zeros(n_machines, np.bool_)
    groups = np.zeros(n, np.int64)
    machine = np.full((n, most), -1, np.int64)
    for k in range(n):
        row = rows[chosen[k]]
        if row[0] > 0 and row[1] == MACHINES:
            groups[k] = (row[0] + row[2] - 1) // row[2]
            for x in range(groups[k]):
                machine[k, x] = at[where[k, x]]
            if row[3] >= 0:
                named[row[3]] = True
    end = 0
    for m in range(n_machines):
        filled[m, 0] = end
        for k in range(n):
            for x in range(groups[k]):
                if machine[k, x] == m:
                    row = rows[chosen[k]]
                    holder[end], size[end] = order[k], min(row[2], row[0] - x * row[2])
                    end += 1
        filled[m, 1] = end
    inside = np.empty(size_all, np.bool_)
    moved = _stay(c, s, rack_of_machine, free, filled, named, apps, holder, size)
    for m in range(n_machines):
        for x in range(filled[m, 0], filled[m, 1]):
            for g in range(size_all):
                inside[g] = pool[g] and c.machine[g] == moved[m]
            _give(c, s, apps[holder[x]], given[holder[x]], inside, size[x], pool)
    for place in (RACK, 0):
        for i in stable_order(apps):
            for k in range(n):
                row = rows[chosen[k]]
                if order[k] == i and row[0] > 0 and row[1] == place:
                    for g in range(size_all):
                        inside[g] = pool[g] and (place != RACK or c.rack[g] == where[k, 0])
                    _give(c, s, apps[i], given[i], inside, row[0], pool)
    return given


@inner
def _give(c, s, app, mine, inside, n, pool):  # type: ignore[no-untyped-def]
    near = copied(mine)
    got = np.zeros(pool.shape[0], np.bool_)
    count = 0
    for g in range(pool.shape[0]):
        if s.owner[g] == app:
            if not s.lapsed[g]:
                near[g] = True
            elif count < n and inside[g]:
                near[g] = got[g] = True
                inside[g] = False
                count += 1
    choose(c, inside, n - count, near, got)
    for g in range(pool.shape[0]):
        if got[g]:
            mine[g] = True
            pool[g] = False
