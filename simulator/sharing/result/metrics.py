"""Metrics on a `SharingResult` (Themis §6.1): finish-time fairness, GPU time, placement scores, and how sure we are.

Apps that failed have no ρ and no completion time: they are left out of what is taken over apps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ....reprs import Shown
from ....seeds import generator
from ..workload.statistics import app_gpu_s
from .columns import FAIR, SharingResult

__all__ = [
    "Interval", "SharingMetrics", "bootstrap", "cdf", "jain", "placement_scores", "rho_cdf", "sharing_metrics",
]  # fmt: skip

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, repr=False)
class SharingMetrics(Shown):
    """Metrics of a run.

    Parameters
    ----------
    max_rho, median_rho : float
        Over apps that were completed; NaN if there are none.
    fair_share : float
        Share of them with ρ ≤ 1, that is, which ended no later than with a share 1/N of their own.
    jain : float
        Jain's fairness index of 1/ρ: 1 if all are treated alike, 1/n if one gets everything.
    gpu_hours : float
        GPU time that all apps held, useful or not.
    work_hours : float
        GPU time that the completed apps' work takes on one GPU each, without slowdown: of all iterations that were
        made, not the budget that T_id counts.
    placement : float
        Mean placement score of all allocations; NaN without any.
    mean_completion_s, makespan_s : float
        Mean seconds from arrival to end of completed apps, and when the last app ended.
    utilisation : float
        GPU time held over all GPUs until the last app ended; 0 if nothing took time.
    """

    max_rho: float
    median_rho: float
    fair_share: float
    jain: float
    gpu_hours: float
    work_hours: float
    placement: float
    mean_completion_s: float
    makespan_s: float
    utilisation: float

    def to_json(self) -> dict[str, float | None]:
        """The metrics as plain values; those that are not finite become None."""
        return {name: value if math.isfinite(value) else None for name, value in asdict(self).items()}


def sharing_metrics(result: SharingResult) -> SharingMetrics:
    """All metrics of a run."""
    rho = result.rho[result.completed]
    scores, counts = placement_scores(result)
    held = float(result.gpu_seconds.sum())
    room = result.world.cluster.n_gpus * result.makespan_s
    completion = result.completion_s[result.completed]
    works = app_gpu_s(result.world.apps)[result.completed]
    return SharingMetrics(
        max_rho=float(rho.max()) if len(rho) else math.nan,
        median_rho=float(np.median(rho)) if len(rho) else math.nan,
        fair_share=float((rho <= FAIR).mean()) if len(rho) else math.nan,
        jain=jain(_inverse(rho)) if len(rho) else math.nan,
        gpu_hours=held / 3600.0,
        work_hours=float(works.sum()) / 3600.0,
        placement=float(np.average(scores, weights=counts)) if counts.sum() else math.nan,
        mean_completion_s=float(completion.mean()) if len(completion) else math.nan,
        makespan_s=result.makespan_s,
        utilisation=held / room if room > 0 else 0.0,
    )


def jain(shares: Sequence[float] | Floats) -> float:
    """Jain's fairness index (Σx)²/(n·Σx²) of what each has.

    Raises
    ------
    InputError
        If there is nothing, or a share is negative or not finite, or all are 0.
    """
    x = np.asarray(shares, dtype=np.float64)
    if not len(x) or not np.all(np.isfinite(x)) or np.any(x < 0) or not np.any(x > 0):
        raise InputError("jain: expected finite shares >= 0, not all of them 0")
    x = x / x.max()
    return float(x.sum() ** 2 / (len(x) * (x**2).sum()))


def _inverse(rho: Floats) -> Floats:
    """1/ρ up to a factor. Beside an app that took no time (ρ = 0) all others have nothing."""
    least = float(rho.min())
    return least / rho if least > 0 else (rho == 0).astype(np.float64)


def placement_scores(result: SharingResult) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Placement scores (Themis §6.1), ascending, and how many allocations have each.

    An allocation is a set of GPUs that a job is given and did not have before. Its score is 1/S, where S is the
    slowdown of the widest link between them. A job that keeps its GPUs when a lease ends counts once.
    """
    slowdowns = np.array([a.slowdown.levels for a in result.world.apps], dtype=np.float64).reshape(-1, 4)
    if len(result.placed) != len(slowdowns):
        raise InputError("placement_scores: this result does not say where jobs ran; simulate it anew")
    scores, where = np.unique(1.0 / slowdowns, return_inverse=True)
    counts = np.zeros(len(scores), dtype=np.int64)
    np.add.at(counts, where.reshape(-1), result.placed.reshape(-1))
    return scores[counts > 0], counts[counts > 0]


def rho_cdf(result: SharingResult) -> tuple[Floats, Floats]:
    """ρ of completed apps, ascending, and the share of them up to each."""
    rho = result.rho[result.completed]
    return cdf(rho, np.ones(len(rho)))


def cdf(values: Floats, weights: npt.NDArray[np.floating] | npt.NDArray[np.integer]) -> tuple[Floats, Floats]:
    """Values in ascending order, and the share of the weight up to each."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(np.asarray(weights, dtype=np.float64)[order])
    return np.asarray(values, dtype=np.float64)[order], total / total[-1] if len(total) else total


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure over seeds.

    Parameters
    ----------
    value : float
        The statistic of all seeds.
    low, high : float
        Percentile bootstrap interval of it.
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


def bootstrap(
    values: Sequence[float] | Floats, *, statistic: Callable[..., npt.NDArray[np.floating]] = np.median,
    level: float = 0.9, draws: int = 2000, seed: int = 0,  # 2000: the ends' ranks err by half a percent
) -> Interval:  # fmt: skip
    """A percentile bootstrap interval of a statistic over seeds (not over apps: those of one run depend on each other).

    Parameters
    ----------
    values : sequence of float
        One for each seed.
    statistic : callable
        Takes an array and an axis, such as numpy's median, mean, max.
    level : float
        Of confidence.
    draws, seed : int
        Resamples, and what they are drawn by.

    Raises
    ------
    InputError
        Without values, or if one is NaN, or the level is outside (0, 1).
    """
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or not len(x) or np.any(np.isnan(x)):
        raise InputError("bootstrap: expected at least one value, none of them NaN")
    if not 0 < level < 1 or draws < 1:
        raise InputError(f"bootstrap: expected a level in (0, 1) and at least one draw (got {level}, {draws})")
    again = x[generator(seed, "sharing bootstrap").integers(0, len(x), (draws, len(x)))]
    low, high = np.quantile(statistic(again, axis=1), [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(statistic(x, axis=0)), float(low), float(high))
