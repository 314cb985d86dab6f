"""Copying and sorting by plain loops: numba compiles them in a fraction of the time that slices and `argsort` take.

An assignment of one array to a slice of another brings the texts of its errors along, compiled anew in each function.
"""

from __future__ import annotations

import numpy as np

from ....jit import inner

__all__ = [
    "copied", "falling_order", "fill_with", "largest", "overwrite", "positive", "rising", "stable_order", "total",
    "true_at",
]  # fmt: skip


@inner
def overwrite(to, of):  # type: ignore[no-untyped-def]
    """Copy an array of one dimension over another."""
    for i in range(of.shape[0]):
        to[i] = of[i]


@inner
def fill_with(to, value):  # type: ignore[no-untyped-def]
    """Set all of an array of one dimension."""
    for i in range(to.shape[0]):
        to[i] = value


@inner
def copied(of):  # type: ignore[no-untyped-def]
    """A copy of an array of one dimension."""
    out = np.empty(of.shape[0], of.dtype)
    for i in range(of.shape[0]):
        out[i] = of[i]
    return out


@inner
def total(of):  # type: ignore[no-untyped-def]
    """Sum of whole numbers."""
    out = np.int64(0)
    for i in range(of.shape[0]):
        out += of[i]
    return out


@inner
def positive(of):  # type: ignore[no-untyped-def]
    """How many are above 0."""
    out = np.int64(0)
    for i in range(of.shape[0]):
        out += of[i] > 0
    return out


@inner
def stable_order(key):  # type: ignore[no-untyped-def]
    """``argsort(key, kind="stable")`` of an array without NaNs."""
    n = key.shape[0]
    order, other = np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(n):
        order[i] = i
    width = 1
    while width < n:
        for first in range(0, n, 2 * width):
            middle, end = min(first + width, n), min(first + 2 * width, n)
            i, j = first, middle
            for x in range(first, end):
                if i < middle and (j >= end or key[order[i]] <= key[order[j]]):
                    other[x] = order[i]
                    i += 1
                else:
                    other[x] = order[j]
                    j += 1
        order, other = other, order
        width *= 2
    return order


@inner
def falling_order(key):  # type: ignore[no-untyped-def]
    """``argsort(-key, kind="stable")``."""
    less = np.empty(key.shape[0], key.dtype)
    for i in range(key.shape[0]):
        less[i] = -key[i]
    return stable_order(less)


@inner
def largest(of):  # type: ignore[no-untyped-def]
    """The largest of an array that has any."""
    out = of[0]
    for i in range(1, of.shape[0]):
        if of[i] > out:
            out = of[i]
    return out


@inner
def true_at(mask):  # type: ignore[no-untyped-def]
    """``flatnonzero(mask)``."""
    n, out = 0, np.empty(mask.shape[0], np.int64)
    for i in range(mask.shape[0]):
        if mask[i]:
            out[n] = i
            n += 1
    return out[:n]


@inner
def rising(of, n):  # type: ignore[no-untyped-def]
    """Sort the first `n`, few of them, in place."""
    for i in range(1, n):
        x, k = of[i], i
        while k > 0 and of[k - 1] > x:
            of[k] = of[k - 1]
            k -= 1
        of[k] = x
