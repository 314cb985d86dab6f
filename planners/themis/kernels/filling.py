"""Filling machines with groups: each as full as may be; and all ways of that, exactly.

Where many groups must fit into few GPUs it is quicker to ask of each machine what to put on it than of each group where
to put it.
"""

from __future__ import annotations

import numpy as np

from ....jit import inner
from ....simulator.sharing.compiled.plain import largest, stable_order, total

__all__ = ["complete", "fill"]

NEVER, FITS, UNKNOWN = 0, 1, 2
PATTERNS = 512
TRIES = 2000
FAILED = 1 << 12


@inner
def fill(sizes, count, free, slack, rack, machines, into):  # type: ignore[no-untyped-def]
    """Fill machines in turn, each as full as may be and with the most urgent groups that do so.

    Parameters
    ----------
    sizes, count : array of int
        Group sizes, the most urgent first, and how many of each there are; `count` is what is left afterwards.
    free, slack, rack : array of int
        GPUs of each machine and each rack, the rack of each machine; `free` and `slack` are changed.
    machines : array of int
        Machines in the order in which they are filled.
    into : array of int, shape (machines, sizes)
        Filled: groups of each size on each machine.

    Returns
    -------
    bool
        Whether all found room.
    """
    kinds = sizes.shape[0]
    for m in range(into.shape[0]):
        for j in range(kinds):
            into[m, j] = 0
    left = total(count)
    top = largest(free)
    reach = np.zeros((kinds + 1, top + 1), np.bool_)
    for m in machines:
        if left == 0:
            break
        room = min(free[m], slack[rack[m]])
        for j in range(kinds + 1):
            for f in range(room + 1):
                reach[j, f] = False
        reach[kinds, 0] = True
        for j in range(kinds - 1, -1, -1):
            for f in range(room + 1):
                for q in range(min(count[j], f // sizes[j]) + 1):
                    if reach[j + 1, f - q * sizes[j]]:
                        reach[j, f] = True
                        break
        f = room
        while not reach[0, f]:
            f -= 1
        free[m] -= f
        slack[rack[m]] -= f
        for j in range(kinds):
            q = min(count[j], f // sizes[j])
            while not reach[j + 1, f - q * sizes[j]]:
                q -= 1
            into[m, j] = q
            f -= q * sizes[j]
            count[j] -= q
            left -= q
    return left == 0


@inner
def _patterns(sizes, room, out):  # type: ignore[no-untyped-def]
    """Fill `out` with all ways to put groups into `room` GPUs, the fullest first; how many, or −1: too many."""
    kinds, n = sizes.shape[0], 0
    now = np.zeros(kinds, np.int64)
    used = 0
    while True:
        if n == out.shape[0]:
            return -1
        for j in range(kinds):
            out[n, j] = now[j]
        n += 1
        j = 0  # the next one, counting up
        while j < kinds and used + sizes[j] > room:
            used -= now[j] * sizes[j]
            now[j] = 0
            j += 1
        if j == kinds:
            break
        now[j] += 1
        used += sizes[j]
    full = np.empty(n, np.int64)
    for i in range(n):
        full[i] = 0
        for j in range(kinds):
            full[i] += out[i, j] * sizes[j]
    # of those as full, the largest groups first: they come last in counting
    order = stable_order(full)
    kept = np.empty((n, kinds), np.int64)
    for i in range(n):
        for j in range(kinds):
            kept[i, j] = out[i, j]
    for i in range(n):
        for j in range(kinds):
            out[i, j] = kept[order[n - 1 - i], j]
    return n


@inner
def _mix(h, x):  # type: ignore[no-untyped-def]
    h = (h ^ np.uint64(x)) * np.uint64(0x9E3779B97F4A7C15)
    return h ^ (h >> np.uint64(29))


@inner
def complete(sizes, count, free, machines, into):  # type: ignore[no-untyped-def]
    """Whether groups fit on machines at all: each machine in turn gets a set to which no other group could be added.

    Parameters
    ----------
    sizes, count : array of int
        Group sizes, the largest first, and how many of each.
    free : array of int
        GPUs of each machine.
    machines : array of int
        Machines, those with the most GPUs first.
    into : array of int, shape (machines, sizes)
        Filled: groups of each size on each machine.

    Returns
    -------
    (int, int)
        `FITS`, `NEVER` or `UNKNOWN`, and tries.
    """
    kinds, n = sizes.shape[0], machines.shape[0]
    while n > 0 and free[machines[n - 1]] < sizes[kinds - 1]:
        n -= 1
    waste = 0
    for j in range(kinds):
        waste -= count[j] * sizes[j]
    distinct, of = 0, np.empty(n, np.int64)
    for i in range(n):
        waste += free[machines[i]]
        if i == 0 or free[machines[i]] != free[machines[i - 1]]:
            distinct += 1
        of[i] = distinct - 1
    if waste < 0:
        return NEVER, 0
    table, ways = np.zeros((distinct, PATTERNS, kinds), np.int64), np.zeros(distinct, np.int64)
    smaller = np.zeros(n, np.int64)  # GPUs of the next smaller machines
    for i in range(n - 2, -1, -1):
        smaller[i] = smaller[i + 1] if of[i] == of[i + 1] else free[machines[i + 1]]
    for i in range(n):
        if i == 0 or of[i] != of[i - 1]:
            ways[of[i]] = _patterns(sizes, free[machines[i]], table[of[i]])
            if ways[of[i]] < 0:
                return UNKNOWN, 0
    left, wasted = np.zeros((n + 1, kinds), np.int64), np.zeros(n + 1, np.int64)
    for j in range(kinds):
        left[0, j] = count[j]
    pick, pointer = np.full(n, -1, np.int64), np.zeros(n + 1, np.int64)
    failed = np.zeros(FAILED, np.uint64)
    i, tries = 0, 0
    while True:
        if total(left[i]) == 0:
            for m in range(into.shape[0]):
                for j in range(kinds):
                    into[m, j] = 0
            for x in range(i):
                for j in range(kinds):
                    into[machines[x], j] = table[of[x], pick[x], j]
            return FITS, tries
        state, found = np.uint64(i), -1
        for j in range(kinds):
            state = _mix(state, left[i, j] + 1)
        state |= np.uint64(1)
        urgent = -1  # the largest group that is left, if it fits on no smaller machine: one of them may as well go here
        if i < n:
            for j in range(kinds):
                if left[i, j] > 0:
                    if sizes[j] > smaller[i]:
                        urgent = j
                    break
        if i < n and (pointer[i] > 0 or failed[state % np.uint64(FAILED)] != state):
            p, kind = pointer[i], of[i]
            while p < ways[kind] and found < 0:
                rest, fits = free[machines[i]], urgent < 0 or table[kind, p, urgent] > 0
                for j in range(kinds):
                    q = table[kind, p, j]
                    fits = fits and q <= left[i, j]
                    rest -= q * sizes[j]
                if wasted[i] + rest > waste:
                    break  # all others waste more
                if fits:
                    for j in range(kinds):
                        if sizes[j] <= rest and table[kind, p, j] < left[i, j]:
                            fits = False  # there is room for one more
                            break
                if fits:
                    found = p
                    wasted[i + 1] = wasted[i] + rest
                p += 1
        if found < 0:
            failed[state % np.uint64(FAILED)] = state
            pointer[i] = 0
            i -= 1
            if i < 0:
                return NEVER, tries
            continue
        tries += 1
        if tries > TRIES:
            return UNKNOWN, tries
        pick[i], pointer[i] = found, found + 1
        for j in range(kinds):
            left[i + 1, j] = left[i, j] - table[of[i], found, j]
        i += 1
        pointer[i] = 0
