"""How well a median is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import median

__all__ = ["median_and_spread"]

COVERAGE = 0.9375
"""Of the interval: what the least and the largest of five samples enclose the median with."""


def median_and_spread(samples: Sequence[float]) -> tuple[float, float]:
    """The median, and half of its interval between order statistics as a part of it (infinite below five samples)."""
    middle = median(samples)
    if len(samples) < 5:
        return middle, math.inf
    ordered = sorted(samples)
    rank = _rank(len(ordered))
    return middle, (ordered[-rank] - ordered[rank - 1]) / 2 / middle if middle else 0.0


@lru_cache(maxsize=256)
def _rank(n: int) -> int:
    """The largest rank k such that the k-th least and k-th largest of n samples enclose the median often enough."""
    outside, rank = 0.0, 0
    while True:
        outside += 2 * math.comb(n, rank) / 2**n
        if outside > 1 - COVERAGE + 1e-12:
            return max(1, rank)
        rank += 1
