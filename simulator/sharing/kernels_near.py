"""`pick` and levels, compiled: see `nearness` and `cluster`. Sets of GPUs are masks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

__all__ = ["ClusterArrays", "choose", "level_of"]


class ClusterArrays(NamedTuple):
    """Units of each GPU, and how many of them there are."""

    slot: np.ndarray
    machine: np.ndarray
    rack: np.ndarray
    n_slots: int
    n_machines: int
    n_racks: int


@njit(cache=True)
def level_of(c, gpus):  # type: ignore[no-untyped-def]
    """Smallest unit that holds all GPUs of a mask."""
    first, level = -1, 0
    for g in range(gpus.shape[0]):
        if not gpus[g]:
            continue
        if first < 0:
            first = g
        elif c.rack[g] != c.rack[first]:
            return 3
        elif c.machine[g] != c.machine[first]:
            level = 2
        elif level < 1 and c.slot[g] != c.slot[first]:
            level = 1
    return level


@njit(cache=True)
def choose(c, pool, n, near, out):  # type: ignore[no-untyped-def]
    """Up to `n` GPUs of the pool, as near to each other or to `near` as can be; the mask `out` gains them.

    Returns
    -------
    int
        How many.
    """
    size = pool.shape[0]
    total, held = 0, False
    in_machine = np.zeros(c.n_machines, np.int64)
    in_rack = np.zeros(c.n_racks, np.int64)
    for g in range(size):
        if pool[g]:
            total += 1
            in_machine[c.machine[g]] += 1
            in_rack[c.rack[g]] += 1
        held = held or near[g]
    n = min(n, total)
    if n <= 0:
        return 0
    if held:
        slot = np.zeros(c.n_slots, np.bool_)
        machine = np.zeros(c.n_machines, np.bool_)
        rack = np.zeros(c.n_racks, np.bool_)
        for g in range(size):
            if near[g]:
                slot[c.slot[g]] = machine[c.machine[g]] = rack[c.rack[g]] = True
        keys = np.empty(total, np.int64)
        k = 0
        for g in range(size):
            if pool[g]:
                m = c.machine[g]
                distance = 0 if slot[c.slot[g]] else 1 if machine[m] else 2 if rack[c.rack[g]] else 3
                keys[k] = ((distance * (size + 1) + size - in_machine[m]) * c.n_machines + m) * size + g
                k += 1
        keys.sort()
        for k in range(n):
            out[keys[k] % size] = True
        return n
    home_machine, home_rack, least = -1, -1, size + 1
    for m in range(c.n_machines):
        if n <= in_machine[m] < least:
            home_machine, least = m, in_machine[m]
    if home_machine < 0:
        for r in range(c.n_racks):
            if n <= in_rack[r] < least:
                home_rack, least = r, in_rack[r]
    return _fullest_first(c, pool, n, home_machine, home_rack, in_machine, in_rack, out)


@njit(cache=True)
def _fullest_first(c, pool, n, home_machine, home_rack, in_machine, in_rack, out):  # type: ignore[no-untyped-def]
    """From the fullest rack, there from the fullest machine, there from the fullest slot."""
    size = pool.shape[0]
    in_slot = np.zeros(c.n_slots, np.int64)
    for g in range(size):
        if pool[g]:
            in_slot[c.slot[g]] += 1
    taken = np.zeros(size, np.bool_)
    got = 0
    while got < n:
        best = -1
        for g in range(size):
            if not pool[g] or taken[g]:
                continue
            if (home_machine >= 0 and c.machine[g] != home_machine) or (home_rack >= 0 and c.rack[g] != home_rack):
                continue
            if best < 0 or _fuller(c, g, best, in_slot, in_machine, in_rack):
                best = g
        taken[best] = True
        out[best] = True
        got += 1
    return got


@njit(cache=True)
def _fuller(c, a, b, in_slot, in_machine, in_rack):  # type: ignore[no-untyped-def]
    ra, rb = c.rack[a], c.rack[b]
    if ra != rb:
        return in_rack[ra] > in_rack[rb] or (in_rack[ra] == in_rack[rb] and ra < rb)
    ma, mb = c.machine[a], c.machine[b]
    if ma != mb:
        return in_machine[ma] > in_machine[mb] or (in_machine[ma] == in_machine[mb] and ma < mb)
    sa, sb = c.slot[a], c.slot[b]
    if sa != sb:
        return in_slot[sa] > in_slot[sb] or (in_slot[sa] == in_slot[sb] and sa < sb)
    return a < b
