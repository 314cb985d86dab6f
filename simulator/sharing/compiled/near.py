"""`pick` and levels, compiled: see `nearness` and `cluster`. Machines are gone through, not GPUs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....jit import inner
from .plain import copied, largest, true_at

__all__ = [
    "ClusterArrays", "Pool", "choose", "draw", "level_among", "level_between", "nearest", "pool_of", "put_back",
]  # fmt: skip


class ClusterArrays(NamedTuple):
    """Units of each GPU, and how many of them there are."""

    slot: np.ndarray
    machine: np.ndarray
    rack: np.ndarray
    n_slots: int
    n_machines: int
    n_racks: int
    first: np.ndarray  # first GPU of each machine, and their number: GPUs are numbered machine by machine
    rack_of: np.ndarray  # of each machine


class Pool(NamedTuple):
    """GPUs to choose from, and how many of them there are where."""

    mask: np.ndarray
    in_machine: np.ndarray
    in_rack: np.ndarray
    total: np.ndarray  # (1,)


@inner
def pool_of(c, mask):  # type: ignore[no-untyped-def]
    """A pool of the GPUs of a mask, which is the pool's from then on."""
    in_machine, in_rack = np.zeros(c.n_machines, np.int64), np.zeros(c.n_racks, np.int64)
    total = np.zeros(1, np.int64)
    for m in range(c.n_machines):
        n = 0
        for g in range(c.first[m], c.first[m + 1]):
            n += mask[g]
        in_machine[m] = n
        in_rack[c.rack_of[m]] += n
        total[0] += n
    return Pool(mask, in_machine, in_rack, total)


@inner
def draw(c, pool, gpus):  # type: ignore[no-untyped-def]
    """Take GPUs of a list out of a pool."""
    mask, in_machine, in_rack, machine, rack = pool.mask, pool.in_machine, pool.in_rack, c.machine, c.rack
    for g in gpus:
        mask[g] = False
        in_machine[machine[g]] -= 1
        in_rack[rack[g]] -= 1
    pool.total[0] -= gpus.shape[0]


@inner
def put_back(c, pool, gpus):  # type: ignore[no-untyped-def]
    """Put GPUs of a list into a pool."""
    mask, in_machine, in_rack, machine, rack = pool.mask, pool.in_machine, pool.in_rack, c.machine, c.rack
    for g in gpus:
        mask[g] = True
        in_machine[machine[g]] += 1
        in_rack[rack[g]] += 1
    pool.total[0] += gpus.shape[0]


@inner
def level_between(slot, machine, rack, g, h):  # type: ignore[no-untyped-def]
    """Smallest unit that holds two GPUs. Of more it is the widest between the first and any other."""
    if slot[g] == slot[h]:
        return 0
    if machine[g] == machine[h]:
        return 1
    return 2 if rack[g] == rack[h] else 3


@inner
def level_among(c, gpus):  # type: ignore[no-untyped-def]
    """Smallest unit that holds all GPUs of a list."""
    slot, machine, rack = c.slot, c.machine, c.rack
    level = 0
    for g in gpus[1:]:
        level = max(level, level_between(slot, machine, rack, gpus[0], g))
    return level


@inner
def nearest(c, pool, n, near, out):  # type: ignore[no-untyped-def]
    """List up to `n` GPUs of a pool in `out`, as near to each other or to those of the list `near` as can be: `pick`.

    Returns
    -------
    int
        How many. They stay in the pool.
    """
    n = min(n, pool.total[0])
    if n <= 0:
        return 0
    if near.shape[0] > 0:
        return _beside(c, pool, n, near, out)
    home, least = np.int64(-1), c.slot.shape[0] + 1  # a literal would have `_of_rack` compiled once more for it
    for m in range(c.n_machines):
        if n <= pool.in_machine[m] < least:
            home, least = m, pool.in_machine[m]
    if home >= 0:
        return _of_machine(c, pool, home, n, out, np.int64(0))
    for r in range(c.n_racks):
        if n <= pool.in_rack[r] < least:
            home, least = r, pool.in_rack[r]
    if home >= 0:
        return _of_rack(c, pool, home, n, out, np.int64(0))
    done = np.zeros(c.n_racks, np.bool_)
    got = np.int64(0)
    while got < n:
        fullest = np.int64(-1)
        for r in range(c.n_racks):
            if not done[r] and (fullest < 0 or pool.in_rack[r] > pool.in_rack[fullest]):
                fullest = r
        done[fullest] = True
        got = _of_rack(c, pool, fullest, n, out, got)
    return got


@inner
def _of_rack(c, pool, rack, n, out, got):  # type: ignore[no-untyped-def]
    """GPUs of a rack, from the fullest machine on, until there are `n`."""
    for count in range(largest(pool.in_machine), 0, -1):
        for m in range(c.n_machines):
            if pool.in_machine[m] == count and c.rack_of[m] == rack:
                got = _of_machine(c, pool, m, n, out, got)
                if got == n:
                    return got
    return got


@inner
def _first_fullest(slots):  # type: ignore[no-untyped-def]
    fullest = 0
    for k in range(1, slots.shape[0]):
        if slots[k] > slots[fullest]:
            fullest = k
    return fullest


@inner
def _of_machine(c, pool, m, n, out, got):  # type: ignore[no-untyped-def]
    """GPUs of a machine, from the fullest slot on, until there are `n`."""
    first, end = c.first[m], c.first[m + 1]
    if pool.in_machine[m] <= n - got:
        for g in range(first, end):
            if pool.mask[g]:
                out[got] = g
                got += 1
        return got
    slots = np.zeros(c.slot[end - 1] - c.slot[first] + 1, np.int64)
    for g in range(first, end):
        slots[c.slot[g] - c.slot[first]] += pool.mask[g]
    while got < n:
        fullest = _first_fullest(slots)
        slots[fullest] = 0
        for g in range(first, end):
            if pool.mask[g] and c.slot[g] - c.slot[first] == fullest and got < n:
                out[got] = g
                got += 1
    return got


@inner
def _beside(c, pool, n, near, out):  # type: ignore[no-untyped-def]
    """The nearest to those that are held; at the same distance from the machine with the most in the pool."""
    slot = np.zeros(c.n_slots, np.bool_)
    distance = np.full(c.n_machines, 3, np.int64)
    rack = np.zeros(c.n_racks, np.bool_)
    for g in near:
        slot[c.slot[g]] = rack[c.rack[g]] = True
        distance[c.machine[g]] = 1
    there = np.empty(min(c.n_machines, pool.total[0]), np.int64)  # machines with any of the pool
    count = fullest = 0
    for m in range(c.n_machines):
        if pool.in_machine[m] > 0:
            there[count] = m
            count += 1
            fullest = max(fullest, pool.in_machine[m])
            if distance[m] == 3 and rack[c.rack_of[m]]:
                distance[m] = 2
    got = 0
    for away in range(4):  # distance 0, the same slot, is inside machines at distance 1
        for most in range(fullest, 0, -1):
            for m in there[:count]:
                if pool.in_machine[m] != most or distance[m] != max(away, 1):
                    continue
                for g in range(c.first[m], c.first[m + 1]):
                    if pool.mask[g] and (away > 1 or slot[c.slot[g]] == (away == 0)):
                        out[got] = g
                        got += 1
                        if got == n:
                            return got
    return got


@inner
def choose(c, mask, n, near, out):  # type: ignore[no-untyped-def]
    """`nearest` with masks: `out` gains up to `n` GPUs of `mask`, near to those of `near`; returns how many."""
    gpus = np.empty(max(n, 1), np.int64)
    got = nearest(c, pool_of(c, copied(mask)), n, true_at(near), gpus)
    for k in range(got):
        out[gpus[k]] = True
    return got
