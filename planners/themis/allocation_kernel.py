"""Branch and bound for the proportional-fair allocation: compiled, exact, and quick because its bound is nearly tight.

Apps choose rows one after the other. The bound of what the rest can still gain is a knapsack over the number of free
GPUs alone, which is the optimum wherever packing is no obstacle. Machines and racks that look alike are tried once, and
a state (machines, racks, GPUs left, apps to go) that was reached before with as much is not searched again.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["bounds", "search"]

ANYWHERE, MACHINES, RACK = 0, 1, 2
MINUS = -1e18


@njit(cache=True)
def bounds(order, start, gpus, value, capacity):  # type: ignore[no-untyped-def]
    """Most that apps ``order[k:]`` can gain from c GPUs wherever they are, shape (n + 1, capacity + 1)."""
    n = order.shape[0]
    table = np.zeros((n + 1, capacity + 1))
    count, worth = np.empty(capacity + 1, np.int64), np.empty(capacity + 1)
    for k in range(n - 1, -1, -1):
        a = order[k]
        rows, least = 0, capacity + 1
        for o in range(start[a], start[a + 1]):  # best first: a later one only matters if it takes fewer GPUs
            if gpus[o] < least:
                least = gpus[o]
                count[rows], worth[rows] = gpus[o], value[o]
                rows += 1
        for c in range(capacity + 1):
            best = MINUS
            for i in range(rows):
                if count[i] <= c:
                    v = worth[i] + table[k + 1, c - count[i]]
                    if v > best:
                        best = v
            table[k, c] = best
    return table


@njit(cache=True)
def _mix(h, x):  # type: ignore[no-untyped-def]
    h = (h ^ np.uint64(x)) * np.uint64(0x9E3779B97F4A7C15)
    return h ^ (h >> np.uint64(29))


@njit(cache=True)
def _rack_key(r, free, first, loose, machine_colour, rack_colour):  # type: ignore[no-untyped-def]
    """The same for racks that hold the same machines in any order."""
    total = np.uint64(0)
    for m in range(first[r], first[r + 1]):
        total += _mix(_mix(np.uint64(12345), free[m] + 1), machine_colour[m] + 1)
    return _mix(_mix(total, loose[r] + 7), rack_colour[r] + 3)


@njit(cache=True)
def _room(p, group, free, first, rack, rack_free, loose):  # type: ignore[no-untyped-def]
    """Groups that machines from position `p` on can take at most."""
    total = 0
    for r in range(rack[p], first.shape[0] - 1):
        inside = 0
        for m in range(max(p, first[r]), first[r + 1]):
            inside += free[m] // group
        total += min(inside, (rack_free[r] - loose[r]) // group)
    return total


@njit(cache=True)
def search(  # type: ignore[no-untyped-def]
    order, start, gpus, place, group, region, value, free_at, first, machine_colour, rack_colour, table, at_least,
    limit, seen_key, seen_value, seen_in, number,
):  # fmt: skip
    """The best choice of rows.

    Parameters
    ----------
    order : array of int
        Apps, in the order in which they choose.
    start, gpus, place, group, region, value : arrays
        Rows of app a: start[a] … start[a + 1] − 1; `value` is log 1/ρ, best first.
    free_at : array of int
        Free GPUs of each machine; machines stand rack by rack.
    first : array of int
        First machine of each rack, and their number.
    machine_colour, rack_colour : arrays of int
        0: nobody asks for this one by name, so it is like any other.
    table : array
        From `bounds`.
    at_least : float
        Only what is worth more is looked for.
    limit : int
        Steps after which to stop.
    seen_key, seen_value, seen_in : arrays
        Room for states, a power of two of them, each with the search that it is of.
    number : int
        Of this search, different from any in `seen_in`.

    Returns
    -------
    (float, int, array, array)
        Value (`at_least` if nothing better was found), steps, chosen row by position in `order`, and the machine or
        rack of each item of it (shape (n, most items)).
    """
    n, n_machines, n_racks = order.shape[0], free_at.shape[0], first.shape[0] - 1
    free = free_at.copy()
    rack = np.zeros(n_machines, np.int64)
    rack_free = np.zeros(n_racks, np.int64)
    loose = np.zeros(n_racks, np.int64)
    key = np.zeros(n_racks, np.uint64)
    for r in range(n_racks):
        for m in range(first[r], first[r + 1]):
            rack[m] = r
            rack_free[r] += free[m]
        key[r] = _rack_key(r, free, first, loose, machine_colour, rack_colour)
    most = 1
    for o in range(gpus.shape[0]):
        if place[o] == MACHINES and gpus[o] > 0:
            most = max(most, (gpus[o] + group[o] - 1) // group[o])
    depth_max = n * most + 1
    app = np.zeros(depth_max + 1, np.int64)  # position in `order` of the frame
    row = np.zeros(depth_max + 1, np.int64)
    item = np.zeros(depth_max + 1, np.int64)
    pointer = np.zeros(depth_max + 1, np.int64)  # next place to try
    at = np.full(depth_max + 1, -2, np.int64)  # where the item is; −2: not placed, −1: nowhere in particular
    size = np.zeros(depth_max + 1, np.int64)
    gained = np.zeros(n + 1)
    left = np.zeros(n + 1, np.int64)
    left[0] = rack_free.sum()
    frame_of = np.zeros(n + 1, np.int64)
    best, steps = at_least, 0
    best_row = np.full(n, -1, np.int64)
    best_at = np.full((n, most), -1, np.int64)
    mask = np.uint64(seen_key.shape[0] - 1)
    d = 0
    row[0] = start[order[0]] if n else 0
    while d >= 0:
        k = app[d]
        if k == n:
            if gained[n] > best + 1e-12:
                best = gained[n]
                for j in range(n):
                    best_row[j] = row[frame_of[j]]
                    end = frame_of[j + 1] if j + 1 < n else d
                    for x in range(most):
                        best_at[j, x] = at[frame_of[j] + x] if frame_of[j] + x < end else -1
            d -= 1
            continue
        a = order[k]
        if at[d] >= 0:  # take back what this frame placed
            if place[row[d]] == MACHINES:
                free[at[d]] += size[d]
                rack_free[rack[at[d]]] += size[d]
                r = rack[at[d]]
            else:
                loose[at[d]] -= size[d]
                r = at[d]
            key[r] = _rack_key(r, free, first, loose, machine_colour, rack_colour)
        at[d] = -2
        if item[d] == 0:
            frame_of[k] = d
        while row[d] < start[a + 1]:
            o = row[d]
            fresh = item[d] == 0 and pointer[d] == 0
            if fresh and (gpus[o] > left[k] or gained[k] + value[o] + table[k + 1, left[k] - gpus[o]] <= best + 1e-12):
                row[d] += 1
                continue
            if gpus[o] == 0 or place[o] == ANYWHERE:
                if pointer[d] == 0:
                    pointer[d], at[d] = 1, -1
                    break
                row[d] += 1
                pointer[d] = 0
                continue
            if place[o] == MACHINES:
                size[d] = min(group[o], gpus[o] - item[d] * group[o])
                lowest = 0
                if item[d] > 0 and size[d] == size[d - 1]:
                    lowest = at[d - 1]  # equal groups stand in order of their machines
                p = max(pointer[d], lowest)
                if region[o] >= 0:
                    p = max(p, region[o]) if p <= region[o] else n_machines
                found = -1
                while p < n_machines:
                    r = rack[p]
                    if free[p] >= size[d] and rack_free[r] - loose[r] >= size[d]:
                        twin = False
                        if region[o] < 0:
                            for q in range(max(first[r], lowest), p):
                                if free[q] == free[p] and machine_colour[q] == machine_colour[p]:
                                    twin = True
                                    break
                            if not twin and lowest == 0 and item[d] == 0:
                                for q in range(r):
                                    if key[q] == key[r]:
                                        twin = True
                                        break
                        if not twin:
                            # equal groups stand in order: those to come must find room from here on
                            more = gpus[o] // group[o] - item[d]
                            if more < 2 or _room(p, group[o], free, first, rack, rack_free, loose) >= more:
                                found = p
                            break
                    if region[o] >= 0:
                        break
                    p += 1
                if found >= 0:
                    pointer[d], at[d] = found + 1, found
                    free[found] -= size[d]
                    r = rack[found]
                    rack_free[r] -= size[d]
                    key[r] = _rack_key(r, free, first, loose, machine_colour, rack_colour)
                    break
            else:
                size[d] = gpus[o]
                p = pointer[d]
                if region[o] >= 0:
                    p = region[o] if p <= region[o] else n_racks
                found = -1
                while p < n_racks:
                    if rack_free[p] - loose[p] >= size[d]:
                        twin = False
                        if region[o] < 0:
                            for q in range(p):
                                if key[q] == key[p]:
                                    twin = True
                                    break
                        if not twin:
                            found = p
                            break
                    if region[o] >= 0:
                        break
                    p += 1
                if found >= 0:
                    pointer[d], at[d] = found + 1, found
                    loose[found] += size[d]
                    key[found] = _rack_key(found, free, first, loose, machine_colour, rack_colour)
                    break
            if item[d] > 0:
                row[d] = start[a + 1]  # this group has no other place
                break
            row[d] += 1
            pointer[d] = 0
        if at[d] == -2:
            d -= 1
            continue
        steps += 1
        if steps > limit:
            break
        o = row[d]
        items = 1
        if place[o] == MACHINES and gpus[o] > 0:
            items = (gpus[o] + group[o] - 1) // group[o]
        if item[d] + 1 < items:
            d += 1
            app[d], row[d], item[d], pointer[d], at[d] = k, o, item[d - 1] + 1, 0, -2
            continue
        gained[k + 1] = gained[k] + value[o]
        left[k + 1] = left[k] - gpus[o]
        state = np.uint64(0)
        for r in range(n_racks):
            state += _mix(np.uint64(99), key[r])
        state = _mix(_mix(state, left[k + 1]), k + 1) | np.uint64(1)
        slot = state & mask
        if seen_in[slot] == number and seen_key[slot] == state:
            if gained[k + 1] <= seen_value[slot] and k + 1 < n:
                continue  # the top of the loop takes it back
            seen_value[slot] = gained[k + 1]
        else:
            seen_key[slot], seen_value[slot], seen_in[slot] = state, gained[k + 1], number
        d += 1
        app[d], item[d], pointer[d], at[d] = k + 1, 0, 0, -2
        if k + 1 < n:
            row[d] = start[order[k + 1]]
    if n and best_row[0] < 0 and at_least < MINUS / 20:  # out of steps before anything was found
        best = 0.0
        for j in range(n):
            best_row[j] = start[order[j] + 1] - 1  # the last one is of no GPUs
            best += value[best_row[j]]
    return best, steps, best_row, best_at
