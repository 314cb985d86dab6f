"""Copying and sorting by plain loops: numba compiles them in a fraction of the time that slices and `argsort` take.

An assignment of one array to a slice of another brings the texts of its errors along, compiled anew in each function.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["copied", "fill_with", "inner", "overwrite", "positive", "stable_order", "total"]


inner = njit(cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)  # type: ignore[call-overload]  # numba declares fewer options than it takes
"""Decorator of what only kernels call: unpacking records of forty arrays from Python is not compiled for it."""


@njit(cache=True)
def overwrite(to, of):  # type: ignore[no-untyped-def]
    """Copy an array of one dimension over another."""
    for i in range(of.shape[0]):
        to[i] = of[i]


@njit(cache=True)
def fill_with(to, value):  # type: ignore[no-untyped-def]
    """Set all of an array of one dimension."""
    for i in range(to.shape[0]):
        to[i] = value


@njit(cache=True)
def copied(of):  # type: ignore[no-untyped-def]
    """A copy of an array of one dimension."""
    out = np.empty_like(of)
    for i in range(of.shape[0]):
        out[i] = of[i]
    return out


@njit(cache=True)
def total(of):  # type: ignore[no-untyped-def]
    """Sum of whole numbers."""
    out = np.int64(0)
    for i in range(of.shape[0]):
        out += of[i]
    return out


@njit(cache=True)
def positive(of):  # type: ignore[no-untyped-def]
    """How many are above 0."""
    out = np.int64(0)
    for i in range(of.shape[0]):
        out += of[i] > 0
    return out


@njit(cache=True)
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
