r"""`slice_pipeline`: the best slices for a pipeline whose cells differ, with a longest slice in each direction.

A pipeline that feeds all slices forward and then all of them backward takes :math:`\sum t + (K - 1) \max t` in each
direction, if its cells are equal. Both directions together take

.. math:: \sum_i t_i + \max_i r^{fwd}_i + \max_i r^{bwd}_i

Here t is a slice's seconds on the slowest cell in both directions, and r its seconds on all other cells (K − 1 times as
much if the cells are equal). If the cells differ, this is an estimate, because the critical path may meet each cell at
another slice.

`slice_tokens` minimises the sum with a single maximum, as the paper does (t_fwd + t_bwd in place of t_fwd). That is a
lower bound. If the slicing that attains it has both maxima in the same slice, it is optimal. Otherwise one maximum is
enumerated inside the other, both exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...errors import InfeasibleError
from ...reprs import Shown
from ..bottleneck import Bounded, least_sum_and_longest
from .slicing import Slice, best_slices, times_of

__all__ = ["PipelineSlicing", "score_pipeline", "slice_pipeline"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, repr=False)
class PipelineSlicing(Shown):
    """Slices of a batch, and what a pipeline takes with them.

    Parameters
    ----------
    slices : tuple of Slice
        The slices in the order in which they are fed; samples are those of one replica.
    total_s : float
        Σ t on the slowest cell, seconds.
    fill_s : tuple of float
        Largest r of each direction, seconds.
    solved : int
        Number of dynamic programmes that were solved.
    """

    slices: tuple[Slice, ...]
    total_s: float
    fill_s: tuple[float, ...]
    solved: int = 0

    @property
    def seconds(self) -> float:
        """The objective that was minimised, in seconds."""
        return self.total_s + sum(self.fill_s)


def slice_pipeline(total: Floats, fills: Sequence[Floats], batch: int, *, epsilon: float = 0.0) -> PipelineSlicing:
    """Find the slicing with the least Σ t + Σ max r.

    Parameters
    ----------
    total : ndarray of float64, shape (b, n, n)
        Seconds of a slice on the slowest cell, [samples − 1, context, length − 1]; inf: no such slices.
    fills : sequence of ndarray, shape (b, n, n)
        For each direction, seconds on the other cells.
    batch : int
        Samples of one replica.
    epsilon : float
        In seconds; 0 is exact. Otherwise only values of r this far apart are tried, and the result is at most one
        epsilon per direction above the optimum.

    Raises
    ------
    InfeasibleError
        If no slices make up the batch.
    """
    total = total[:batch]
    fills = [fill[:batch] for fill in fills]
    together: Floats = np.sum(fills, axis=0)
    bound, solved = _least(total, [together], batch, epsilon)
    if bound is None:
        raise InfeasibleError("slices: no slices of the given lengths and samples make up the batch")
    found = score_pipeline(total, fills, bound.plan, solved)
    # The margin: the same sums in another order. A slicing that attains the lower bound is the optimum.
    if found.seconds <= (bound.total + bound.longest) * (1 + 1e-12) or len(fills) < 2:
        return found
    best, more = _least(total, fills, batch, epsilon)
    assert best is not None
    return min(score_pipeline(total, fills, best.plan, solved + more), found, key=lambda x: x.seconds)


def score_pipeline(total: Floats, fills: Sequence[Floats], slices: Sequence[Slice], solved: int = 0) -> PipelineSlicing:
    """The objective of given slices."""
    sums = float(sum(sum(times_of(total, x)) for x in slices))
    most = tuple(max(max(times_of(fill, x)) for x in slices) for fill in fills)
    return PipelineSlicing(tuple(slices), sums, most, solved)


def _least(
    total: Floats, fills: Sequence[Floats], batch: int, epsilon: float
) -> tuple[Bounded[tuple[Slice, ...]] | None, int]:
    """The best slices. `longest` of the result is the maximum of the first direction, `total` is all the rest."""
    first, rest = fills[0], fills[1:]
    solved = 0

    def solve(threshold: float) -> Bounded[tuple[Slice, ...]] | None:
        nonlocal solved
        allowed = np.where(first <= threshold, total, np.inf)
        if rest:
            inner, count = _least(allowed, rest, batch, epsilon)
            solved += count
            if inner is None:
                return None
            seconds, plan = inner.total + inner.longest, inner.plan
        else:
            solved += 1
            found = best_slices(allowed, batch)
            if found is None:
                return None
            seconds, plan = found
        longest = max(max(times_of(first, x)) for x in plan)
        return Bounded(seconds, longest, plan)

    best, _ = least_sum_and_longest(_thresholds(first, total, epsilon), 1.0, solve)
    return best, solved


def _thresholds(fill: Floats, total: Floats, epsilon: float) -> Floats:
    n = int(fill.shape[1])
    possible: npt.NDArray[np.bool_] = (
        (np.arange(n)[:, None] + np.arange(1, n + 1) <= n) & np.isfinite(total) & np.isfinite(fill)
    )
    values = np.unique(fill[possible])
    if epsilon == 0 or not len(values):
        return values
    cell = np.floor((values - values[0]) / epsilon)
    return values[np.append(cell[1:] != cell[:-1], True)]
