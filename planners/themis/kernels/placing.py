"""Whether groups and racks' rows find places at all: depth first, exactly."""

from __future__ import annotations

import numpy as np

from ....jit import inner
from ....simulator.sharing.compiled.plain import total

__all__ = ["exactly"]

NEVER, FITS, UNKNOWN = 0, 1, 2
TRIES = 1000
FAILED = 1 << 12


@inner
def _mix(h, x):  # type: ignore[no-untyped-def]
    h = (h ^ np.uint64(x)) * np.uint64(0x9E3779B97F4A7C15)
    return h ^ (h >> np.uint64(29))


@inner
def _key(r, free, slack, first):  # type: ignore[no-untyped-def]
    """The same for racks that hold the same machines in any order."""
    mixed = np.uint64(0)
    for m in range(first[r], first[r + 1]):
        mixed += _mix(np.uint64(12345), np.uint64(free[m] + 1))
    return _mix(mixed, np.uint64(slack[r] + 7))


@inner
def exactly(goods, size, is_rack, in_racks, free, slack):  # type: ignore[no-untyped-def]
    """Depth first over places of each item, largest first; alike machines and racks once, no state twice."""
    items, machines = size.shape[0], free.shape[0]
    racks = slack.shape[0] if in_racks else 1
    rack = goods.rack if in_racks else np.zeros(machines, np.int64)  # without rows in racks, racks do not matter
    if not in_racks:
        slack[0] = total(free)
    first = np.zeros(racks + 1, np.int64)
    for m in range(machines):
        first[rack[m] + 1] = m + 1
    for r in range(racks):
        first[r + 1] = max(first[r + 1], first[r])
    key = np.empty(racks, np.uint64)
    for r in range(racks):
        key[r] = _key(r, free, slack, first)
    at, pointer = np.full(items, -1, np.int64), np.zeros(items, np.int64)
    failed = np.zeros(FAILED, np.uint64)
    i, tries = 0, 0
    while True:
        if i == items:
            return FITS, tries, at
        if at[i] >= 0:  # take back
            r = at[i] if is_rack[i] else rack[at[i]]
            slack[r] += size[i]
            if not is_rack[i]:
                free[at[i]] += size[i]
            key[r] = _key(r, free, slack, first)
            at[i] = -1
        state = np.uint64(i)
        for r in range(racks):
            state += _mix(np.uint64(99), key[r])
        state |= np.uint64(1)
        found = -1
        if pointer[i] > 0 or failed[state % np.uint64(FAILED)] != state:
            p = pointer[i]
            while p < (racks if is_rack[i] else machines):
                r = p if is_rack[i] else rack[p]
                fits = slack[r] >= size[i] and (is_rack[i] or free[p] >= size[i])
                if fits and not is_rack[i]:
                    for q in range(first[r], p):
                        if free[q] == free[p]:
                            fits = False
                            break
                if fits:
                    for q in range(r):
                        if key[q] == key[r]:
                            fits = False
                            break
                if fits:
                    found = p
                    break
                p += 1
        if found < 0:
            failed[state % np.uint64(FAILED)] = state
            pointer[i] = 0
            i -= 1
            if i < 0:
                return NEVER, tries, at
            continue
        tries += 1
        if tries > TRIES:
            return UNKNOWN, tries, at
        pointer[i], at[i] = found + 1, found
        r = found if is_rack[i] else rack[found]
        slack[r] -= size[i]
        if not is_rack[i]:
            free[found] -= size[i]
        key[r] = _key(r, free, slack, first)
        i += 1
