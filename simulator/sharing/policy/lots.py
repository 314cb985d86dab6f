"""Lots: random numbers that are hashes of what they decide, the same in every engine and process."""

from __future__ import annotations

__all__ = ["lot", "share_of_lot"]

MASK = (1 << 64) - 1


def lot(seed: int, decision: int, what: int) -> int:
    """64 bits for an app or a GPU in a decision (SplitMix64's finaliser over each number in turn)."""
    h = 0
    for x in (seed, decision, what):
        h = (h + x + 0x9E3779B97F4A7C15) & MASK
        h = ((h ^ (h >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        h = ((h ^ (h >> 27)) * 0x94D049BB133111EB) & MASK
        h ^= h >> 31
    return h


def share_of_lot(bits: int) -> float:
    """A lot as a number in [0, 1)."""
    return (bits >> 11) * 2.0**-53  # the upper 53 bits: as many as a double holds exactly
