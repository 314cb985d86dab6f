"""In which racks rows that ask for a rack may stand, so that what they leave holds the groups of the others."""

from __future__ import annotations

import numpy as np

from ....jit import inner
from ....simulator.sharing.compiled.plain import copied

__all__ = ["rows_in_racks", "ways_in_racks"]


@inner
def ways_in_racks(size, slack, usable, groups, ways):  # type: ignore[no-untyped-def]
    """Ways to put rows in racks that leave room for so many GPUs in groups.

    A rack takes at most `usable` GPUs in groups (its other machines are too small), and no more than rows leave.

    Parameters
    ----------
    size : array of int
        GPUs of each row, the largest first.
    slack, usable : array of int
        GPUs of each rack, and those of them on machines that take a group.
    groups : int
        GPUs in groups.
    ways : array of int, shape (most, rows)
        Filled: the rack of each row.

    Returns
    -------
    (int, bool)
        How many ways were found, and whether these are all that differ.
    """
    rows, racks = size.shape[0], slack.shape[0]
    at, left = np.full(rows + 1, -1, np.int64), copied(slack)
    i, found, tries = 0, 0, 0
    while i >= 0:
        if i == rows:
            room = 0
            for r in range(racks):
                room += min(usable[r], left[r])
            if room >= groups:
                if found == ways.shape[0]:
                    return found, False
                for x in range(rows):
                    ways[found, x] = at[x]
                found += 1
            i -= 1
            continue
        if at[i] >= 0:
            left[at[i]] += size[i]
        r = at[i] + 1
        while r < racks:
            fits = left[r] >= size[i]
            for q in range(r):
                fits = fits and not (left[q] == left[r] and usable[q] == usable[r])  # as good as that one
            if fits:
                break
            r += 1
        tries += 1
        if tries > 8 * ways.shape[0]:
            return found, False
        if r == racks:
            at[i] = -1
            i -= 1
            continue
        at[i] = r
        left[r] -= size[i]
        i += 1
        at[i] = -1
    return found, True


@inner
def rows_in_racks(size, is_rack):  # type: ignore[no-untyped-def]
    """Which items are rows in racks, and their sizes."""
    n = 0
    rows, sizes = np.empty(size.shape[0], np.int64), np.empty(size.shape[0], np.int64)
    for i in range(size.shape[0]):
        if is_rack[i]:
            rows[n], sizes[n] = i, size[i]
            n += 1
    return rows[:n], sizes[:n]
