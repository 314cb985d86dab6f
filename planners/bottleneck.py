"""`least_sum_and_longest`: minimise Σ t + w · max t exactly, given the least Σ t with no part above a threshold.

The latency of a pipeline has this form (TeraPipe Eq. 2.5, Alpa Eq. 2). Let F(t) be the least sum when no part takes
longer than t. The papers compute it for every distinct t, smallest first. Here it is computed for few of them:

- F never rises with t. Once F(b) is known, any plan whose longest part is x ≤ b costs at least F(b) + w · x. So of
  the thresholds up to b, only those whose bound is below the best plan found so far still need to be solved.
- The plan that attains F(b) has a longest part p ≤ b, and F(x) = F(b) for all x from p to b. So one solution settles
  all of these thresholds.
- If no plan exists for t, none exists below t.

The remaining thresholds are bisected, the one with the lowest bound first. The papers skip thresholds that differ by
less than ε; here none is skipped (ε = 0), so the result is exact.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["Bounded", "least_sum_and_longest"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Bounded(Generic[T]):
    """The best plan under a threshold.

    Parameters
    ----------
    total : float
        F: Σ t.
    longest : float
        max t, at most the threshold; one of the thresholds.
    plan : object
        The plan itself.
    """

    total: float
    longest: float
    plan: T


def least_sum_and_longest(
    thresholds: npt.NDArray[np.float64], weight: float, solve: Callable[[float], Bounded[T] | None]
) -> tuple[Bounded[T] | None, int]:
    """The plan with the least ``total + weight · longest``, and how many thresholds were solved.

    Parameters
    ----------
    thresholds : ndarray of float64
        Every value that the longest part can take, ascending, each once.
    weight : float
        w, at least 0.
    solve : callable
        Threshold -> best plan with no part above it; None if there is none.
    """
    best, value, solved = None, math.inf, 0
    # Intervals of thresholds (positions a to b) that are not decided, with F of some threshold at or above b.
    todo: list[tuple[float, int, int, float]] = []
    if thresholds.size:
        todo.append((weight * float(thresholds[0]), 0, len(thresholds) - 1, 0.0))
    while todo:
        bound, a, b, least = heapq.heappop(todo)
        if bound >= value:  # the heap yields the lowest bound first, so no later interval can be better either
            break
        # The sum of any plan here is at least `least`, so a better plan has no part longer than this.
        if weight and math.isfinite(value):
            b = max(a, min(b, int(np.searchsorted(thresholds, (value - least) / weight))))
        at = (a + b) // 2 if solved else b  # the loosest threshold first: it shows whether any plan exists at all
        solved += 1
        found = solve(float(thresholds[at]))
        if at < b:
            heapq.heappush(todo, (least + weight * float(thresholds[at + 1]), at + 1, b, least))
        if found is None:
            continue
        if found.total + weight * found.longest < value:
            best, value = found, found.total + weight * found.longest
        p = int(np.searchsorted(thresholds, found.longest))
        if p > a:
            heapq.heappush(todo, (found.total + weight * float(thresholds[a]), a, p - 1, found.total))
    return best, solved
