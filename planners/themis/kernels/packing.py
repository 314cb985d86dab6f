"""Whether chosen rows fit on machines and in racks together: greedily first, exactly where that fails."""

from __future__ import annotations

import numpy as np

from ....jit import inner
from ....simulator.sharing.compiled.plain import copied, falling_order, largest, overwrite
from .filling import complete, fill
from .placing import exactly
from .racks import rows_in_racks, ways_in_racks

__all__ = ["FITS", "NEVER", "UNKNOWN", "pack", "put"]

ANYWHERE, MACHINES, RACK = 0, 1, 2
NEVER, FITS, UNKNOWN = 0, 1, 2
WAYS = 64  # of rows in racks that are looked at


@inner
def put(goods, o, free, slack, places):  # type: ignore[no-untyped-def]
    """Put a row's groups where they leave the least over; False (and a mess in `free`, `slack`) if that fails.

    Parameters
    ----------
    free : array of int
        Free GPUs of each machine; changed.
    slack : array of int
        GPUs of each rack that are not spoken for; changed.
    places : array of int
        Filled: machine of each group, or the rack.
    """
    n = goods.gpus[o]
    if n == 0 or goods.place[o] == ANYWHERE:
        return True
    if goods.place[o] == RACK:
        best = goods.region[o]
        if best < 0:
            for r in range(slack.shape[0]):
                if slack[r] >= n and (best < 0 or slack[r] < slack[best]):
                    best = r
        if best < 0 or slack[best] < n:
            return False
        slack[best] -= n
        places[0] = best
        return True
    group, x = goods.group[o], 0
    while n > 0:
        size = min(group, n)
        best = goods.region[o]
        if best < 0:
            best = _tightest(goods, free, slack, size)
        if best < 0 or free[best] < size or slack[goods.rack[best]] < size:
            return False
        free[best] -= size
        slack[goods.rack[best]] -= size
        places[x] = best
        x += 1
        n -= size
    return True


@inner
def _tightest(goods, free, slack, size):  # type: ignore[no-untyped-def]
    """The machine with the fewest free GPUs that takes a group, of those in the rack with the most."""
    best = -1
    for m in range(free.shape[0]):
        if free[m] >= size and slack[goods.rack[m]] >= size:
            alike = best >= 0 and free[m] == free[best]
            if best < 0 or free[m] < free[best] or (alike and slack[goods.rack[m]] > slack[goods.rack[best]]):
                best = m
    return best


@inner
def pack(goods, chosen, count, free, slack, places):  # type: ignore[no-untyped-def]
    """Pack rows ``chosen[:count]`` from an empty start, largest groups first.

    Parameters
    ----------
    free, slack : array of int
        Filled: what is left on machines and in racks.
    places : array, shape (n, most)
        Filled: machines of each row's groups, or its rack.

    Returns
    -------
    (int, int)
        `FITS`, `NEVER` or `UNKNOWN` (too many tries), and tries.
    """
    overwrite(free, goods.free)
    overwrite(slack, goods.rack_free)
    items = 0
    in_racks = np.bool_(False)  # a literal would have `_by_machine` compiled for it alone
    for k in range(count):
        o = chosen[k]
        n = goods.gpus[o]
        if n == 0 or goods.place[o] == ANYWHERE:
            continue
        if goods.region[o] >= 0:
            if not put(goods, o, free, slack, places[k]):
                return NEVER, 0
            in_racks = in_racks or goods.place[o] == RACK
        elif goods.place[o] == RACK:
            items += 1
            in_racks = True
        else:
            items += (n + goods.group[o] - 1) // goods.group[o]
    if items == 0:
        return FITS, 0
    size, of, nth = np.empty(items, np.int64), np.empty(items, np.int64), np.empty(items, np.int64)
    at = 0
    for k in range(count):
        o = chosen[k]
        n = goods.gpus[o]
        if n == 0 or goods.place[o] == ANYWHERE or goods.region[o] >= 0:
            continue
        x = 0
        while n > 0:
            size[at] = n if goods.place[o] == RACK else min(goods.group[o], n)
            of[at], nth[at] = k, x
            n -= size[at]
            at += 1
            x += 1
    size, of, nth = _largest_first(size, of, nth)
    left, room = copied(free), copied(slack)
    done = True
    for i in range(items):
        o = chosen[of[i]]
        if goods.place[o] == RACK:
            done = put(goods, o, left, room, places[of[i]])
        else:
            m = _tightest(goods, left, room, size[i])
            done = m >= 0
            if done:
                left[m] -= size[i]
                room[goods.rack[m]] -= size[i]
                places[of[i], nth[i]] = m
        if not done:
            break
    if done:
        overwrite(free, left)
        overwrite(slack, room)
        return FITS, 0
    return _by_machine(goods, chosen, size, of, nth, in_racks, free, slack, places)


@inner
def _largest_first(size, of, nth):  # type: ignore[no-untyped-def]
    order = falling_order(size)
    sizes, ofs, nths = copied(size), copied(of), copied(nth)
    for i in range(order.shape[0]):
        sizes[i], ofs[i], nths[i] = size[order[i]], of[order[i]], nth[order[i]]
    return sizes, ofs, nths


@inner
def _by_machine(goods, chosen, size, of, nth, in_racks, free, slack, places):  # type: ignore[no-untyped-def]
    """The same, machine by machine, for each way to put rows in racks; then all ways."""
    items = size.shape[0]
    is_rack = _are_rack(goods, chosen, of)
    sizes, count = _tally(size, is_rack)
    kinds = sizes.shape[0]
    into = np.zeros((free.shape[0], kinds), np.int64)
    rows, size_of = rows_in_racks(size, is_rack)
    groups = np.int64(0)
    for j in range(kinds):
        groups += sizes[j] * count[j]
    usable = np.zeros(slack.shape[0], np.int64)
    for m in range(free.shape[0]):
        if kinds > 0 and free[m] >= sizes[kinds - 1]:
            usable[goods.rack[m]] += free[m]
    ways = np.empty((WAYS, rows.shape[0]), np.int64)
    found, all_of_them = ways_in_racks(size_of, slack, usable, groups, ways)
    if found == 0 and all_of_them:
        return NEVER, 0
    for w in range(found):
        room = copied(slack)
        for x in range(rows.shape[0]):
            room[ways[w, x]] -= size_of[x]
        now = copied(free)
        if (kinds == 0 or _filled(sizes, count, now, room, goods.rack, into)) and _hand_out(
            goods, size, of, nth, is_rack, sizes, into, now, room, places
        ):
            for x in range(rows.shape[0]):
                places[of[rows[x]], 0] = ways[w, x]
            overwrite(free, now)
            overwrite(slack, room)
            return FITS, found
    tries = found
    if kinds > 0:
        answer, more = complete(sizes, count, free, falling_order(free), into)
        tries += more
        if answer == NEVER or (not in_racks and answer == UNKNOWN and more > 0):
            return answer, tries
        if answer == FITS and not in_racks:
            now, room = copied(free), copied(slack)
            if _hand_out(goods, size, of, nth, is_rack, sizes, into, now, room, places):
                overwrite(free, now)
                overwrite(slack, room)
                return FITS, tries
    answer, more, where = exactly(goods, size, is_rack, in_racks, free, slack)
    for i in range(items):
        places[of[i], nth[i]] = where[i]
    if not in_racks:
        for r in range(slack.shape[0]):
            slack[r] = 0
        for m in range(free.shape[0]):
            slack[goods.rack[m]] += free[m]
    return answer, tries + more


@inner
def _tally(size, is_rack):  # type: ignore[no-untyped-def]
    """Group sizes above 1, the largest first, and how many of each."""
    kinds = 0
    sizes, count = np.empty(size.shape[0], np.int64), np.zeros(size.shape[0], np.int64)
    for i in range(size.shape[0]):
        if not is_rack[i] and size[i] > 1:
            if kinds == 0 or sizes[kinds - 1] != size[i]:
                sizes[kinds] = size[i]
                kinds += 1
            count[kinds - 1] += 1
    return sizes[:kinds], count[:kinds]


@inner
def _filled(sizes, count, free, slack, rack, into):  # type: ignore[no-untyped-def]
    """`fill` from the largest machines and from the smallest, the largest groups first and the most awkward ones."""
    kinds = sizes.shape[0]
    machines = falling_order(free)
    turned = copied(machines)
    for m in range(machines.shape[0]):
        turned[m] = machines[machines.shape[0] - 1 - m]
    awkward = _awkward(sizes, free)
    other = np.zeros((free.shape[0], kinds), np.int64)
    these, many = np.empty(kinds, np.int64), np.empty(kinds, np.int64)
    for turn in range(4):
        for j in range(kinds):
            first = j if turn < 2 else awkward[j]
            these[j], many[j] = sizes[first], count[first]
        if fill(these, many, copied(free), copied(slack), rack, machines if turn % 2 == 0 else turned, other):
            for m in range(free.shape[0]):
                for j in range(kinds):
                    into[m, j if turn < 2 else awkward[j]] = other[m, j]
            return True
    return False


@inner
def _awkward(sizes, free):  # type: ignore[no-untyped-def]
    """Sizes by what they waste on machines that are not the largest, those that waste the most first."""
    top = largest(free)
    waste = np.empty(sizes.shape[0])
    for j in range(sizes.shape[0]):
        waste[j] = 2.0
        for f in free:
            if sizes[j] <= f < top:
                waste[j] = min(waste[j], f % sizes[j] / f)
    return falling_order(waste)


@inner
def _hand_out(goods, size, of, nth, is_rack, sizes, into, free, slack, places):  # type: ignore[no-untyped-def]
    """Name the machine of each group from how many of each size are on each; False if single GPUs find no room."""
    for j in range(sizes.shape[0]):
        m = 0
        for i in range(size.shape[0]):
            if is_rack[i] or size[i] != sizes[j]:
                continue
            while into[m, j] == 0:
                m += 1
            into[m, j] -= 1
            places[of[i], nth[i]] = m
            free[m] -= size[i]
            slack[goods.rack[m]] -= size[i]
    for i in range(size.shape[0]):
        if not is_rack[i] and size[i] == 1:
            m = _tightest(goods, free, slack, np.int64(1))
            if m < 0:
                return False
            free[m] -= 1
            slack[goods.rack[m]] -= 1
            places[of[i], nth[i]] = m
    return True


@inner
def _are_rack(goods, chosen, of):  # type: ignore[no-untyped-def]
    out = np.empty(of.shape[0], np.bool_)
    for i in range(of.shape[0]):
        out[i] = goods.place[chosen[of[i]]] == RACK
    return out
