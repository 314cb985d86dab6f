r"""`slice_tokens`: cut a batch of sequences into slices of samples and tokens, optimally (TeraPipe §2.3.3, §2.3.4).

A pipeline of K equal cells takes, for slices of times t,

.. math:: \sum_i t_i + (K - 1) \max_j t_j .

Both terms are over all slices of the whole batch. The paper first solves the token dimension for each number of samples
by itself, and then a knapsack over the samples. Here both are one problem. For a given longest slice t_max, Algorithm 1
gives the least sum S_b for b samples, and a knapsack over S_b makes up the batch; `least_sum_and_longest` then finds
the best t_max exactly (ε = 0). So different groups of samples may be cut differently.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...errors import InfeasibleError, InputError
from ...reprs import Shown
from ..bottleneck import Bounded, least_sum_and_longest

__all__ = ["Slice", "Slicing", "best_slices", "score_slices", "slice_tokens", "times_of", "uniform_slices"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, repr=False)
class Slice(Shown):
    """Samples that go through the pipeline together, and how their tokens are cut.

    Parameters
    ----------
    samples : int
        Number of samples.
    tokens : tuple of int
        Length of each token slice, first to last, in the same units as the times.
    """

    samples: int
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Slicing(Shown):
    """Slices of a batch, and what a pipeline takes with them.

    Parameters
    ----------
    slices : tuple of Slice
        The slices in the order in which they are fed.
    total_s, longest_s : float
        Σ t and max t on one cell, seconds.
    stages : int
        K, number of stages.
    solved : int
        Number of thresholds that were solved.
    """

    slices: tuple[Slice, ...]
    total_s: float
    longest_s: float
    stages: int
    solved: int = 0

    @property
    def seconds(self) -> float:
        """Latency of the pipeline, Eq. 2.5."""
        return self.total_s + (self.stages - 1) * self.longest_s

    def __str__(self) -> str:
        rows: list[str] = []
        for piece in dict.fromkeys(self.slices):
            rows.append(f"({piece.samples}, {list(piece.tokens)}) x {self.slices.count(piece)}")
        return f"{', '.join(rows)}: {self.seconds:.6g} s"


def slice_tokens(times: npt.ArrayLike, stages: int, batch: int = 1, *, epsilon: float = 0.0) -> Slicing:
    """Find the slicing with the least latency.

    Parameters
    ----------
    times : array_like of float, shape (b, n, n) or (n, n)
        Seconds of a slice on one cell, as [samples − 1, context, length − 1], with context and length in units; the
        sequence has n units. Entries with context + length > n are not read; inf marks an impossible slice. For a
        training iteration, give forward and backward seconds together.
    stages : int
        K, number of cells of the pipeline.
    batch : int
        Samples of an iteration; a slice holds 1 to b of them.
    epsilon : float
        In seconds; 0 is exact. Otherwise only thresholds this far apart are tried, and the latency is at most
        ``(K − 1) · epsilon`` above the optimum.

    Raises
    ------
    InputError
        If the shape is wrong, a time is NaN or negative, or a count is below one.
    InfeasibleError
        If too many slices are impossible, so that no slicing is left.
    """
    table = _times(times)
    for name, value in (("stages", stages), ("batch", batch)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise InputError(f"slice_tokens: {name}: expected a positive integer (got {value!r})")
    if not epsilon >= 0:
        raise InputError(f"slice_tokens: epsilon: expected seconds >= 0 (got {epsilon})")
    table = np.ascontiguousarray(table[:batch])

    def solve(threshold: float) -> Bounded[tuple[Slice, ...]] | None:
        found = best_slices(table, batch, threshold)
        if found is None:
            return None
        return Bounded(found[0], max(max(times_of(table, piece)) for piece in set(found[1])), found[1])

    best, solved = least_sum_and_longest(_thresholds(table, epsilon), stages - 1, solve)
    if best is None:
        raise InfeasibleError("slice_tokens: some tokens are in no possible slice; give finite times for them")
    return Slicing(best.plan, best.total, best.longest, stages, solved)


def best_slices(table: Floats, batch: int, threshold: float = math.inf) -> tuple[float, tuple[Slice, ...]] | None:
    """The least Σ t of slices none of which takes longer than a threshold, and these slices; None if there are none.

    Algorithm 1 for each number of samples, and a knapsack over the samples.
    """
    from .slice_kernel import token_slices, token_totals

    totals = token_totals(table, threshold)
    groups = _knapsack(totals[:, -1], batch)
    if not groups:
        return None
    cut: dict[int, Slice] = {}
    for samples in sorted(set(groups)):
        lengths, count = token_slices(table[samples - 1], totals[samples - 1], threshold)
        cut[samples] = Slice(samples, tuple(int(x) for x in lengths[:count][::-1]))
    return float(sum(totals[samples - 1, -1] for samples in groups)), tuple(cut[samples] for samples in groups)


def uniform_slices(times: npt.ArrayLike, stages: int, batch: int, samples: int, slices: int) -> Slicing:
    """Equal slices: the batch is cut into groups of `samples`, and each sequence into `slices` parts (§2.5.2).

    Raises
    ------
    InputError
        If `samples` does not divide `batch`, or `slices` the sequence.
    """
    table = _times(times)
    n = table.shape[1]
    if samples < 1 or batch % samples or samples > len(table):
        raise InputError(
            f"uniform_slices: samples: expected a divisor of {batch}, at most {len(table)} (got {samples})"
        )
    if slices < 1 or n % slices:
        raise InputError(f"uniform_slices: slices: expected a divisor of the sequence's {n} units (got {slices})")
    return score_slices(table, stages, [Slice(samples, (n // slices,) * slices)] * (batch // samples))


def score_slices(times: npt.ArrayLike, stages: int, slices: Sequence[Slice]) -> Slicing:
    """The latency of given slices.

    Raises
    ------
    InputError
        If the slices of a sequence do not sum to it.
    """
    table = _times(times)
    n = table.shape[1]
    every: list[float] = []
    for at, piece in enumerate(slices):
        if not 1 <= piece.samples <= len(table):
            raise InputError(f"slices[{at}]: times are given for 1 to {len(table)} samples (got {piece.samples})")
        if sum(piece.tokens) != n or min(piece.tokens, default=0) < 1:
            raise InputError(f"slices[{at}]: expected lengths >= 1 that sum to {n} (got {sum(piece.tokens)})")
        every += times_of(table, piece)
    return Slicing(tuple(slices), float(sum(every)), max(every), stages)


def times_of(table: Floats, piece: Slice) -> list[float]:
    """The entries of a grid for the token slices of a piece, first to last."""
    starts = np.cumsum((0, *piece.tokens[:-1]))
    return [
        float(table[piece.samples - 1, start, length - 1]) for start, length in zip(starts, piece.tokens, strict=True)
    ]


def _knapsack(totals: Floats, batch: int) -> tuple[int, ...]:
    """Sizes of the groups of samples with the least sum of totals; () if there is none."""
    best, last = np.full(batch + 1, np.inf), np.zeros(batch + 1, np.int64)
    best[0] = 0.0
    for have in range(1, batch + 1):
        most = min(have, len(totals))
        values = best[have - most : have][::-1] + totals[:most]
        last[have] = int(np.argmin(values)) + 1
        best[have] = values[last[have] - 1]
    groups: list[int] = []
    while batch and np.isfinite(best[batch]):
        groups.append(int(last[batch]))
        batch -= groups[-1]
    return tuple(sorted(groups, reverse=True))  # the order does not change the sum; largest first is a fixed one


def _thresholds(table: Floats, epsilon: float) -> Floats:
    n = table.shape[1]
    possible = np.add.outer(np.arange(n), np.arange(1, n + 1)) <= n
    values = np.unique(table[:, possible])
    values = values[np.isfinite(values)]
    if epsilon == 0 or not len(values):
        return values
    # The last value of each cell of a grid: at most epsilon above any other of the cell.
    cell = np.floor((values - values[0]) / epsilon)
    return values[np.append(cell[1:] != cell[:-1], True)]


def _times(times: npt.ArrayLike) -> Floats:
    try:
        table = np.asarray(times, np.float64)
    except (TypeError, ValueError):
        raise InputError("times: expected a numeric array (samples, n, n)") from None
    table = table[None] if table.ndim == 2 else table
    if table.ndim != 3 or table.shape[1] != table.shape[2] or 0 in table.shape:
        raise InputError(f"times: expected shape (samples, n, n) or (n, n) (got {table.shape})")
    n = table.shape[1]
    read = np.add.outer(np.arange(n), np.arange(1, n + 1)) <= n
    bad = np.argwhere((np.isnan(table) | (table < 0)) & read)
    if len(bad):
        b, context, length = (int(x) for x in bad[0])
        value = table[b, context, length]
        raise InputError(
            f"times[{b}, {context}, {length}]: expected seconds >= 0, or inf (got {value}); {len(bad)} such"
        )
    return table
