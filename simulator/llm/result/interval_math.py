"""`Interval`: how far a figure of one simulation can be trusted, although its requests depend on each other.

Requests that queue behind each other have similar latencies, so the usual formulas, which take them as independent,
give intervals far too narrow. Here a run is cut into batches, long ones of requests that follow each other (rates: into
equal windows of time); each gives the figure once more, and these are nearly independent. The half width is Student's t
times their spread around the figure of the whole run (batch means; for percentiles and ratios sectioning: Asmussen and
Glynn, Stochastic Simulation, 2007). The number of batches is halved until neighbours no longer resemble each other by a
test of their autocorrelation; where they did so more than once, `correlated` says that the run is too short.
"""

from __future__ import annotations

# scipy brings no type stubs.
# pyright: reportMissingTypeStubs=false
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ....reprs import Shown

__all__ = ["BATCHES", "Batch", "Interval", "check_interval", "check_percentile", "over_seeds", "sectioned"]

Column = npt.NDArray[np.float64]
Batch = Callable[[int], Sequence[float]]
"""Number of batches -> a figure of each, in order."""

BATCHES = (20, 10, 5)
"""Numbers of batches that are tried, in order. More than about 20 hardly narrow Student's t, and make batches shorter
and so more alike; fewer than 5 make it very wide. The usual advice is 10 to 30 (Schmeiser, 1982)."""


@dataclass(frozen=True, slots=True, repr=False)
class Interval(Shown):
    """A figure with a confidence or prediction interval.

    Parameters
    ----------
    value : float
        The figure; NaN if it is undefined for this run.
    low, high : float
        Ends of the interval; NaN if there is too little data for one.
    confidence : float
        Coverage: the share of such intervals that contain the true value.
    batches : int
        Number of batches, or of seeds, that it was computed from.
    correlated : bool
        Whether successive batches are still correlated: then the run is too short, and the interval too narrow.
    """

    value: float
    low: float
    high: float
    confidence: float
    batches: int
    correlated: bool = False

    def __str__(self) -> str:
        warning = ", correlated" if self.correlated else ""
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}] ({self.confidence:.0%}{warning})"

    @property
    def half_width(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2


def sectioned(whole: float, batch: Batch, n: int, *, confidence: float = 0.9, kind: str = "confidence") -> Interval:
    """An interval around a figure from the same figure of batches.

    Parameters
    ----------
    whole : float
        The figure of everything.
    batch : callable
        Number of batches -> the figure of each, in order.
    n : int
        Observations in all; a batch should have ten at least.
    confidence : float
        Coverage.
    kind : {"confidence", "prediction"}
        See `interval`.

    Raises
    ------
    InputError
        On an unknown kind, or a confidence outside (0, 1).
    """
    check_interval(confidence, kind)
    nan, answer, alike = float("nan"), None, 0
    for count in BATCHES:
        if n < 10 * count and count != BATCHES[-1]:  # a percentile of fewer than ten values is hardly one
            continue
        given = np.asarray(batch(count), dtype=np.float64) if n >= 2 * count else np.zeros(0)
        if len(given) < count or not np.isfinite(given).all() or not np.isfinite(whole):
            continue
        spread = float(np.sqrt(np.sum((given - whole) ** 2) / (count - 1)))
        half = _quantile(confidence, count - 1) * spread * ((2.0 if kind == "prediction" else 1.0) / count) ** 0.5
        resemble = _resemble(given)
        alike += resemble
        # Few batches hardly tell: two numbers of batches that were alike are believed over one that seems not to be.
        answer = Interval(
            whole, whole - half, whole + half, confidence, count, alike > 1 or (resemble and count == BATCHES[-1])
        )
        if not resemble:
            return answer
    return answer or Interval(whole, nan, nan, confidence, 0)


def over_seeds(values: npt.ArrayLike, *, confidence: float = 0.9, kind: str = "confidence") -> Interval:
    """An interval from one figure of several independent runs: Student's t.

    Raises
    ------
    InputError
        On an unknown kind, a confidence outside (0, 1), or no value.
    """
    check_interval(confidence, kind)
    x = np.asarray(values, dtype=np.float64).ravel()
    if not len(x):
        raise InputError("over_seeds: expected at least one value")
    mean, n = float(x.mean()), len(x)
    if n < 2 or not np.isfinite(x).all():
        return Interval(mean, float("nan"), float("nan"), confidence, n)
    half = _quantile(confidence, n - 1) * float(x.std(ddof=1)) * (1 / n + (kind == "prediction")) ** 0.5
    return Interval(mean, mean - half, mean + half, confidence, n)


def _resemble(values: Column) -> bool:
    """Whether neighbours are alike: von Neumann's ratio, one-sided at 5 %."""
    n, centred = len(values), values - values.mean()
    total = float((centred**2).sum())
    if total == 0:
        return False
    first = 1 - float((np.diff(values) ** 2).sum()) / (2 * total)
    # Of independent values the statistic is nearly normal with this variance; 1.645 is the one-sided 5 % quantile.
    return first > 1.645 * ((n - 2) / (n**2 - 1)) ** 0.5


def _quantile(confidence: float, freedom: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.5 + confidence / 2))


def check_interval(confidence: float, kind: str) -> None:
    """Raise on a confidence outside (0, 1), or an unknown kind."""
    if not 0 < confidence < 1:
        raise InputError(f"confidence: expected a number between 0 and 1 (got {confidence})")
    if kind not in ("confidence", "prediction"):
        raise InputError(f"kind: expected 'confidence' or 'prediction' (got {kind!r})")


def check_percentile(percentile: float) -> None:
    """Raise on a percentile outside 0 … 100."""
    if not 0 <= percentile <= 100:
        raise InputError(f"percentile: expected a number from 0 to 100 (got {percentile})")
