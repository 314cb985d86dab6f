"""Themis between the steps of the compiled event loop: see `policy.Themis.assign`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....jit import inner, kernel
from ....simulator.sharing.compiled.gangs import fitting
from ....simulator.sharing.compiled.plain import falling_order, fill_with, overwrite, positive, stable_order
from ....simulator.sharing.compiled.policies import take_near
from ....simulator.sharing.compiled.view import contention
from ..bids import GRAIN, STARVED
from ..lots import lot_kernel
from .auction import drop, layout, rounded, shares_kept, whereabouts_of
from .bids import agent_of, best_first, most_rows, rho_of, table_of, whole_jobs, worth_of

__all__ = ["Memory", "Rules", "award", "bids_of"]


class Rules(NamedTuple):
    """What `Themis` is set to."""

    fairness: float
    payments: bool
    rounding: int  # 0 floor, 1 nearest, 2 random
    cached: bool
    idle: bool
    seed: int
    limit: int  # steps of a search
    n_racks: int


class Memory(NamedTuple):
    """What it remembers."""

    said: np.ndarray  # (apps, GPUs + 1): the best log 1/ρ that its last table has for so many more GPUs
    kept: np.ndarray  # per app: GPUs that it kept then; −1: it has never bid
    rack: np.ndarray  # of each machine
    auctions: np.ndarray


@inner
def _held(c, s, apps, lapsed):  # type: ignore[no-untyped-def]
    """GPUs of each app on each machine and in each rack, with or without those whose lease is over."""
    of = np.full(s.active.shape[0], -1, np.int64)
    for i in range(apps.shape[0]):
        of[apps[i]] = i
    on = np.zeros((apps.shape[0], c.n_machines), np.int64)
    in_rack = np.zeros((apps.shape[0], c.n_racks), np.int64)
    for g in range(s.owner.shape[0]):
        if s.owner[g] >= 0 and of[s.owner[g]] >= 0 and (lapsed or not s.lapsed[g]):
            on[of[s.owner[g]], c.machine[g]] += 1
            in_rack[of[s.owner[g]], c.rack[g]] += 1
    return on, in_rack


@inner
def _ranked(c, w, s, rules, memory, now, apps):  # type: ignore[no-untyped-def]
    """Apps that could use more than they keep, the worst first, and how many stand still."""
    count = apps.shape[0]
    on, in_rack = _held(c, s, apps, np.bool_(True))
    wanting = np.empty(count, np.int64)
    visible, waiting = np.empty(count), np.empty(count)
    n = 0
    for i in range(count):
        a, has = apps[i], s.n_gpus[apps[i]]
        if s.room[a] <= has - s.over[a]:
            continue
        wanting[n] = a
        if rules.cached and memory.kept[a] >= 0:
            more = min(max(has - memory.kept[a], 0), memory.said.shape[1] - 1)
            visible[n] = memory.said[a, more] if has > 0 else STARVED
        else:
            agent = agent_of(w, s, a, now)
            racks, none, one = positive(in_rack[i]), np.int64(0), np.int64(1)
            visible[n] = worth_of(rho_of(w, s, a, agent, has, whole_jobs(agent, on[i]), racks, none, one, none, -one))
        waiting[n] = np.rint((now - w.arrival[a]) / (contention(w, s, a, now) * w.alone[a]) * GRAIN) / GRAIN
        n += 1
    longest = falling_order(waiting[:n])
    seen = np.empty(n)
    for i in range(n):
        seen[i] = visible[longest[i]]
    then = stable_order(seen)
    ranked = np.empty(n, np.int64)
    still = np.int64(0)
    for i in range(n):
        ranked[i] = wanting[longest[then[i]]]
        still += seen[i] <= STARVED
    return ranked, still


@inner
def _startable_first(s, ranked, n, still, offered):  # type: ignore[no-untyped-def]
    """`Themis._startable`, to the front of those ranked: how many take part, of the first `n`."""
    first, last = np.empty(ranked.shape[0], np.int64), np.empty(ranked.shape[0], np.int64)
    n_first = n_last = np.int64(0)
    still = min(still, n)
    for i in range(ranked.shape[0]):
        a = ranked[i]
        need = max(s.least[a] - (s.n_gpus[a] - s.over[a]), 1)
        if i < still and need <= offered:
            offered -= need
            first[n_first] = a
            n_first += 1
        else:
            last[n_last] = a
            n_last += 1
    if n_first == 0 or n_first == still:
        return n
    for i in range(n_first):
        ranked[i] = first[i]
    for i in range(n_last):
        ranked[n_first + i] = last[i]
    return n_first


@inner
def _bids(c, w, s, memory, now, offered, inside, n_racks):  # type: ignore[no-untyped-def]
    """Tables of apps: first row of each, rows, log 1/ρ, and the fewest GPUs with which each runs."""
    size = offered.shape[0]
    free, free_rack = np.zeros(c.n_machines, np.int64), np.zeros(c.n_racks, np.int64)
    total = np.int64(0)
    for g in range(size):
        if offered[g]:
            free[c.machine[g]] += 1
            free_rack[c.rack[g]] += 1
            total += 1
    count = inside.shape[0]
    held, held_rack = _held(c, s, inside, np.bool_(False))
    most = 0
    for i in range(count):
        most = max(most, most_rows(s, inside[i], total, positive(held[i]), positive(held_rack[i])))
    raw, raw_value = np.empty((most, 4), np.int64), np.empty(most)
    rows, value = np.empty((most * count, 4), np.int64), np.empty(most * count)
    start, least = np.zeros(count + 1, np.int64), np.zeros(count, np.int64)
    for i in range(count):
        a = inside[i]
        n = table_of(
            c, w, s, a, agent_of(w, s, a, now), free, free_rack, held[i], held_rack[i], total, n_racks, raw, raw_value
        )
        memory.kept[a] = s.n_gpus[a] - s.over[a]
        fill_with(memory.said[a], STARVED)
        least[i] = size + 1
        for k in range(n):
            if raw_value[k] > STARVED:
                least[i] = min(least[i], raw[k, 0])
                memory.said[a, raw[k, 0]] = max(memory.said[a, raw[k, 0]], raw_value[k])
        if least[i] > size:
            least[i] = 0
        for k in range(1, size + 1):
            memory.said[a, k] = max(memory.said[a, k], memory.said[a, k - 1])
        for k in best_first(raw, raw_value, n):
            overwrite(rows[start[i + 1]], raw[k])
            value[start[i + 1]] = raw_value[k]
            start[i + 1] += 1
        if i + 1 < count:
            start[i + 2] = start[i + 1]
    return start, rows[: start[count]], value[: start[count]], least, free


@inner
def _leftovers(c, w, s, now, offered, a, given, won):  # type: ignore[no-untyped-def]
    """Give an app of what is left all that its jobs and their gangs can use."""
    size = offered.shape[0]
    pool, have = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    mine, out = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    free = n_have = np.int64(0)
    for g in range(size):
        pool[g] = offered[g] and given[g] < 0
        free += pool[g]
        have[g] = given[g] == a or (s.owner[g] == a and not s.lapsed[g])
        n_have += have[g]
        mine[g] = s.owner[g] == a and s.lapsed[g]
    n = min(s.room[a] - (s.n_gpus[a] - s.over[a]) - won, free)
    n = fitting(w, s, a, now, n_have, n) if n > 0 else n
    if n <= 0 or n + n_have < s.least[a]:
        return free
    take_near(c, pool, have, mine, n, out)
    for g in range(size):
        if out[g]:
            given[g] = a
            free -= 1
    return free


@kernel(rolled=True)
def bids_of(c, w, s, p, rules, memory, now, count):  # type: ignore[no-untyped-def]
    """Start a round: who takes part, who does not, and what is bid.

    Returns
    -------
    tuple
        For `award`: apps inside and outside the auction; rows of their tables, the fewest GPUs with which each runs,
        free GPUs of machines, machines in the order of the search, and the order in which apps choose. And what is
        bid for.
    """
    offered, apps, given = p.offered, p.present[:count], p.given
    fill_with(given, -1)
    memory.auctions[0] += 1
    ranked, still = _ranked(c, w, s, rules, memory, now, apps)
    n = min(ranked.shape[0], max(1, int(np.ceil((1 - rules.fairness) * apps.shape[0] - 1e-9))))
    n = _startable_first(s, ranked, n, still, positive(offered))
    inside, outside = ranked[:n], ranked[n:]
    start, rows, value, least, free = _bids(c, w, s, memory, now, offered, inside, rules.n_racks)
    at, goods = layout(memory.rack, free, start, rows, value)
    most = np.empty(n)
    for i in range(n):
        most[i] = -value[start[i]]
    return (inside, outside, rows, least, free, at, stable_order(most)), goods


@kernel(rolled=True)
def award(c, w, s, p, rules, memory, now, bids, value, chosen, where, without):  # type: ignore[no-untyped-def]
    """Who gets the GPUs on offer, into `given`; `without`: rows of `_without_each`, or none where nobody pays."""
    offered, given = p.offered, p.given
    inside, outside, rows, least, free, at, order = bids
    keeps = shares_kept(value, chosen, without)
    n, number = inside.shape[0], memory.auctions[0]
    places = whereabouts_of(c, s, memory.rack, free, offered, inside, order, rows, at, chosen, where)
    won = np.zeros(n, np.int64)
    for k in range(n):
        i = order[k]
        gpus = rows[chosen[k], 0]
        keep = rounded(keeps[k] * gpus, rules.rounding, rules.seed, number, inside[i])
        won[i] = keep if keep >= least[i] else 0
        drop(c, places[i], gpus, won[i])
        for g in range(offered.shape[0]):
            if places[i, g]:
                given[g] = inside[i]
    left = 0
    for g in range(offered.shape[0]):
        left += offered[g] and given[g] < 0
    lots = np.empty(outside.shape[0], np.uint64)
    for i in range(outside.shape[0]):
        lots[i] = lot_kernel(rules.seed, number, outside[i])
    for i in stable_order(lots):
        if left == 0:
            return
        left = _leftovers(c, w, s, now, offered, outside[i], given, np.int64(0))
    if not rules.idle:
        for i in range(n):
            if left == 0:
                return
            left = _leftovers(c, w, s, now, offered, inside[i], given, won[i])
