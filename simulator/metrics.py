"""Metrics that every world shares: intervals for what comes from sampling, and refusals to say what is not known."""

from __future__ import annotations

# pandas, scipy and pyarrow bring no type stubs.
# pyright: reportMissingTypeStubs=false
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..errors import InputError

if TYPE_CHECKING:
    from .serving.result import SimulationResult

__all__ = [
    "MIN_FOR_P99",
    "Estimate",
    "Tail",
    "goodput",
    "instability",
    "mean_interval",
    "paired_difference",
    "percentile",
    "replicate",
    "tail",
]

MIN_FOR_P99 = 10_000
"""Finished requests that a 99th percentile needs. A hundred of them lie beyond it, and the standard error of the
percentile's rank is then about a tenth of that tail (the square root of 100)."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over replications with its confidence interval.

    Parameters
    ----------
    mean : float
        The mean.
    half_width : float
        Half the width of the confidence interval; NaN for a single value.
    n : int
        Replications.
    confidence : float
        Coverage of the interval.
    """

    mean: float
    half_width: float
    n: int
    confidence: float = 0.95

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return self.mean + self.half_width

    @property
    def differs_from_zero(self) -> bool:
        """Whether the interval excludes 0; False where it is not known."""
        return self.low > 0 or self.high < 0

    def __str__(self) -> str:
        return f"{self.mean:.4g} ± {self.half_width:.2g}" if self.n > 1 else f"{self.mean:.4g}"


@dataclass(frozen=True, slots=True)
class Tail:
    """A percentile, or why there is none.

    Parameters
    ----------
    value : float
        The percentile; NaN if refused.
    why : str
        Why it was refused; empty if it was not.
    """

    value: float
    why: str = ""

    def __str__(self) -> str:
        return f"refused: {self.why}" if self.why else f"{self.value:.4g}"


def mean_interval(values: npt.ArrayLike, confidence: float = 0.95) -> Estimate:
    """Mean of independent replications with Student's t interval.

    Raises
    ------
    InputError
        On no value, one that is not finite, or a confidence outside (0, 1).
    """
    x = np.asarray(values, dtype=np.float64).ravel()
    if not len(x) or not np.isfinite(x).all():
        raise InputError(f"mean_interval: expected at least one finite value (got {x[:5].tolist()})")
    if not 0 < confidence < 1:
        raise InputError(f"confidence: expected a number between 0 and 1 (got {confidence})")
    if len(x) == 1:
        return Estimate(float(x[0]), float("nan"), 1, confidence)
    from scipy.special import stdtrit

    quantile = float(stdtrit(len(x) - 1, 0.5 + confidence / 2))
    return Estimate(float(x.mean()), quantile * float(x.std(ddof=1)) / len(x) ** 0.5, len(x), confidence)


def paired_difference(a: npt.ArrayLike, b: npt.ArrayLike, confidence: float = 0.95) -> Estimate:
    """Mean of ``a - b`` over replications on common random numbers.

    Raises
    ------
    InputError
        If the two do not hold the same replications.
    """
    left, right = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if left.shape != right.shape:
        raise InputError(f"paired_difference: expected the same replications (got {left.shape} and {right.shape})")
    return mean_interval(left - right, confidence)


def replicate(
    measure: Callable[[int], Mapping[str, float]], seeds: Iterable[int] | int = 10, confidence: float = 0.95
) -> dict[str, Estimate]:
    """Run `measure` under several seeds and give each of its metrics an interval.

    Parameters
    ----------
    measure : callable
        Seed -> metrics by name.
    seeds : iterable of int, or int
        The seeds; a number means ``0 … n - 1``.
    confidence : float
        Coverage of the intervals.

    Raises
    ------
    InputError
        On no seed, or if the runs name different metrics.
    """
    rows: Sequence[Mapping[str, float]] = [measure(s) for s in (range(seeds) if isinstance(seeds, int) else seeds)]
    if not rows:
        raise InputError("replicate: expected at least one seed")
    if any(set(row) != set(rows[0]) for row in rows):
        raise InputError("replicate: every run must give the same metrics")
    return {name: mean_interval([row[name] for row in rows], confidence) for name in rows[0]}


def goodput(attained: float, begin_s: float, last_arrival_s: float, last_finish_s: float) -> float:
    """Attained requests per second of the time over which requests arrived: the one definition, in every world.

    What is still served after the last arrival takes no part: where all requests are attained, goodput is the rate at
    which they were offered, and it is never above it. Requests that all arrive at one instant have no such time; then
    it is the time until the last of them is finished.

    Parameters
    ----------
    attained : float
        Requests that finished within their limits.
    begin_s, last_arrival_s : float
        When requests began to arrive, and when the last one did, seconds.
    last_finish_s : float
        When the last one was finished, seconds; NaN if none was.

    Returns
    -------
    float
        Requests per second; NaN where no time passed.
    """
    span = last_arrival_s - begin_s
    if not span > 0:
        span = last_finish_s - begin_s
    return float(attained / span) if span > 0 else float("nan")


def percentile(values: npt.NDArray[np.float64], at: float) -> float:
    """A percentile of some values, bit for bit as `numpy.percentile` says it, which loads NumPy's masked arrays first.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
        The values.
    at : float
        Which one, 0 … 100.

    Returns
    -------
    float
        Between the two nearest values by distance (Hyndman and Fan's seventh definition); NaN of none, or if one is.
    """
    last = len(values) - 1
    if last < 0:
        return float("nan")
    place = last * (at / 100)
    low = last if place >= last else int(place)
    high = min(low + 1, last)
    ordered = np.partition(values, (low, high, last))
    a, b, share = float(ordered[low]), float(ordered[high]), place - low
    if np.isnan(ordered[last]):
        return float("nan")
    return b - (b - a) * (1 - share) if share >= 0.5 else a + (b - a) * share


def tail(latencies: npt.ArrayLike, percentile: float = 99.0) -> Tail:
    """A percentile for a report: refused where fewer than a hundred finished requests lie beyond it.

    `SimulationResult.latency` answers always; this is for figures that people compare.

    Raises
    ------
    InputError
        If `percentile` is outside 0 … 100.
    """
    if not 0 <= percentile <= 100:
        raise InputError(f"tail: expected a percentile from 0 to 100 (got {percentile})")
    x = np.asarray(latencies, dtype=np.float64)
    # Below 90 the bulk of the distribution decides. The 100th percentile would divide by zero, and is always refused.
    need = 1 if percentile < 90 else int(np.ceil(MIN_FOR_P99 / max(100 - percentile, 1e-9)))
    if len(x) < need:
        return Tail(float("nan"), f"p{percentile:g} needs {need} finished requests, there are {len(x)}")
    return Tail(float(np.percentile(x, percentile)))


def instability(result: SimulationResult) -> str | None:
    """A warning where the mean latency has no meaning: a stage is asked for more work than there is time.

    Returns
    -------
    str or None
        ``"unstable: utilisation 1.07 on group 3; the mean grows with the horizon"``, or None.
    """
    load = result.offered_load()
    g = int(np.argmax(load))
    if not load[g] >= 1:
        return None
    return f"unstable: utilisation {load[g]:.2f} on group {g}; the mean grows with the horizon"
