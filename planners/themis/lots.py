"""Lots: random numbers that are hashes of what they decide, the same in every engine and process."""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["lot", "lot_kernel", "share_of_lot"]

MASK = (1 << 64) - 1


def lot(seed: int, decision: int, app: int) -> int:
    """64 bits for an app in a decision (SplitMix64's finaliser over each number in turn)."""
    h = 0
    for x in (seed, decision, app):
        h = (h + x + 0x9E3779B97F4A7C15) & MASK
        h = ((h ^ (h >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        h = ((h ^ (h >> 27)) * 0x94D049BB133111EB) & MASK
        h ^= h >> 31
    return h


def share_of_lot(bits: int) -> float:
    """A lot as a number in [0, 1)."""
    return (bits >> 11) * 2.0**-53


@njit(cache=True)
def lot_kernel(seed, decision, app):  # type: ignore[no-untyped-def]
    """`lot`, compiled."""
    h = np.uint64(0)
    for x in (np.uint64(seed), np.uint64(decision), np.uint64(app)):
        h = h + x + np.uint64(0x9E3779B97F4A7C15)
        h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        h = h ^ (h >> np.uint64(31))
    return h
