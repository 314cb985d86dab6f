"""`SlowdownLearner`: what distance costs an app's jobs, from the times of their iterations (Themis, footnote 3).

An agent begins with start values (1 on a machine, 1.1 across machines, 1.3 across racks). When its jobs run, it times
iterations: t seconds each on n GPUs that are as far apart as a level says are S = t · min(n, cap) / t(1), where t(1) is
the serial time of an iteration, which agents know (§4.3.1). Numbers of GPUs are pooled: S is by level, as in
`Slowdown`.

Times vary from one iteration to the next, so a mean has an uncertainty: ± 1.96 σ/√n after n iterations. σ² is the
larger of two estimates: the variance within batches, and that of the batches' means (the sum of n_b · (mean_b − mean)²
over one less than the batches), which is larger where slow iterations come in a row. What is believed of a level
moves, from its start value or from an earlier mean, to the mean once there are enough iterations (`Beliefs.least`)
and the mean is off by more than its uncertainty: so noise alone seldom moves it, and it follows the mean as that gets
surer.

The levels together do not fall with distance and are at least 1: where they would fall, neighbours that were measured
are averaged by their iterations, and one that was not measured yet takes the value of the one that was.

It knows no clock. Agents in simulation and for real own one each; the compiled engine does the same in arrays.
"""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist, fmean, stdev
from typing import Literal

from ....errors import InputError
from ....reprs import Shown
from ..cluster import Level
from ..workload.app import Slowdown
from .lots import lot

__all__ = ["NORMAL", "Z", "Beliefs", "Learned", "SlowdownLearner", "noisy", "trimmed"]

Z = 1.96
"""Of a normal distribution 95 % lie within so many standard deviations."""

LEVELS = len(Level)

NORMAL = tuple(NormalDist().inv_cdf((k + 0.5) / 1024) for k in range(1024))
"""Quantiles of the standard normal distribution, from which simulated measurements are drawn: the same numbers in both
engines. Their standard deviation is 0.999."""


@dataclass(frozen=True, slots=True, repr=False)
class Beliefs(Shown):
    """What agents know of the slowdown by distance.

    Parameters
    ----------
    slowdown : {"known", "assumed", "learned"}
        ``known``: as the app says (`App.estimated_slowdown`). ``assumed``: the start values, for ever. ``learned``: the
        start values, until iterations have been timed; see `SlowdownLearner`.
    start : Slowdown
        The start values; by default those of footnote 3.
    least : int
        Iterations on GPUs of a level that must have been timed before a start value is given up. The paper says a few;
        20 is a guess.
    spread : float
        Simulated: standard deviation of an iteration's time as a share of its mean. Work goes on at the mean; what
        agents measure is drawn. 0: they measure exactly.
    seed : int
        Seed of what they measure.

    Raises
    ------
    InputError
        If the first is unknown, or a number is out of its range.
    """

    slowdown: Literal["known", "assumed", "learned"] = "known"
    start: Slowdown = field(default_factory=Slowdown)
    least: int = 20
    spread: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.slowdown not in ("known", "assumed", "learned"):
            raise InputError(f"Beliefs.slowdown: expected known, assumed or learned (got {self.slowdown!r})")
        if not isinstance(self.start, Slowdown):
            raise InputError(f"Beliefs.start: expected a Slowdown (got {self.start!r})")
        if isinstance(self.least, bool) or not isinstance(self.least, int) or not 1 <= self.least < 1 << 53:
            raise InputError(f"Beliefs.least: expected a number of iterations >= 1 (got {self.least!r})")
        if isinstance(self.spread, bool) or not isinstance(self.spread, int | float) or not 0 <= self.spread < 1:
            raise InputError(f"Beliefs.spread: expected a share of the mean in [0, 1) (got {self.spread!r})")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or not 0 <= self.seed < 1 << 63:
            raise InputError(f"Beliefs.seed: expected an integer in 0 … 2^63 - 1 (got {self.seed!r})")


@dataclass(frozen=True, slots=True, repr=False)
class Learned(Shown):
    """What is known of one level.

    Parameters
    ----------
    iterations : int
        Iterations that were timed.
    mean, half_width : float
        Their mean slowdown, and half of its 95 % interval; NaN without iterations.
    believed : float
        What bids use of this level, before levels are put in order.
    """

    iterations: int
    mean: float
    half_width: float
    believed: float


class SlowdownLearner:
    """The slowdown by level, learned; see the module.

    Parameters
    ----------
    beliefs : Beliefs
        Start values, and how many iterations are needed.
    """

    def __init__(self, beliefs: Beliefs) -> None:
        self.beliefs = beliefs
        self.batches = 0
        self._count = [0] * LEVELS
        self._mean = [0.0] * LEVELS
        self._within = [0.0] * LEVELS  # sums of n · σ² of each batch
        self._between = [0.0] * LEVELS  # and of n · (mean of the batch − mean)²
        self._batches = [0] * LEVELS
        self._believed = list(beliefs.start.levels)
        self._slowdown: Slowdown | None = beliefs.start

    def observe(self, level: int, slowdown: float, iterations: int, deviation: float = 0.0) -> None:
        """Take in the times of some iterations of one job.

        Parameters
        ----------
        level : int
            How far apart the job's GPUs are, by `Level`.
        slowdown : float
            Mean of t · min(n, cap) / t(1) over the iterations.
        iterations : int
            How many.
        deviation : float
            Standard deviation of one of them.

        Raises
        ------
        InputError
            If there is no such level, or a number cannot be.
        """
        if not 0 <= level < LEVELS:
            raise InputError(f"SlowdownLearner: level: expected 0 … {LEVELS - 1} (got {level})")
        if not (math.isfinite(slowdown) and slowdown > 0 and math.isfinite(deviation) and deviation >= 0):
            raise InputError(
                f"SlowdownLearner: expected a finite slowdown > 0 and its deviation >= 0 (got {slowdown}, {deviation})"
            )
        if iterations < 1:
            raise InputError(f"SlowdownLearner: iterations: expected 1 or more (got {iterations})")
        self.batches += 1
        self._batches[level] += 1
        self._count[level] += iterations
        before = slowdown - self._mean[level]
        self._mean[level] += before * (iterations / self._count[level])
        self._between[level] += iterations * before * (slowdown - self._mean[level])
        self._within[level] += iterations * deviation * deviation
        off = abs(self._mean[level] - self._believed[level])
        if self._count[level] >= self.beliefs.least and off > self._half_width(level):
            self._believed[level] = self._mean[level]
        self._slowdown = None

    def _half_width(self, level: int) -> float:
        n = self._count[level]
        variance = self._within[level] / n
        if self._batches[level] > 1:
            variance = max(variance, self._between[level] / (self._batches[level] - 1))
        return Z * math.sqrt(variance / n)

    def learned(self, level: int) -> Learned:
        """What is known of a level."""
        n = self._count[level]
        if not n:
            return Learned(0, math.nan, math.nan, self._believed[level])
        return Learned(n, self._mean[level], self._half_width(level), self._believed[level])

    @property
    def slowdown(self) -> Slowdown:
        """What bids reckon with."""
        if self._slowdown is None:
            self._slowdown = Slowdown(*self._in_order())
        return self._slowdown

    def _in_order(self) -> list[float]:
        """Believed values that do not fall with distance: pool adjacent violators, by weight."""
        pooled: list[tuple[float, int, int]] = []  # value, weight, levels
        for level in range(LEVELS):
            n = self._count[level]
            one = self._believed[level], n if n >= self.beliefs.least else 0, 1
            while pooled and pooled[-1][0] > one[0]:
                value, weight, size = pooled.pop()
                total = weight + one[1]
                mean = (value * weight + one[0] * one[1]) / total if total > 0 else value
                one = mean, total, size + one[2]
            pooled.append(one)
        return [max(value, 1.0) for value, _, size in pooled for _ in range(size)]

    def __str__(self) -> str:
        said: list[str] = []
        for level in Level:
            one = self.learned(level)
            known = f" ± {one.half_width:.3f} ({one.iterations} iterations)" if one.iterations else ""
            said.append(f"{level.name.lower()} {one.believed:.3f}, measured {one.mean:.3f}{known}" if known else "")
        return "; ".join(filter(None, said)) or "nothing measured yet"


def trimmed(times: Sequence[float], share: float = 0.1) -> tuple[float, float]:
    """A mean that one step stuck somewhere does not move, and the deviation that its uncertainty follows from.

    The mean without the least and the greatest `share` of the values, rounded down (10 %: a guess), and the standard
    deviation with those drawn in to the values next to them, over 1 − 2 · `share`: over √n it is the error of that mean
    (Tukey and McLaughlin 1963). With fewer than two values the deviation is 0.

    Raises
    ------
    InputError
        If there are no values.
    """
    if not times:
        raise InputError("trimmed: expected at least one value (got none)")
    ranked, cut = sorted(times), int(share * len(times))
    inner = ranked[cut : len(ranked) - cut]
    drawn_in = [inner[0]] * cut + inner + [inner[-1]] * cut
    return fmean(inner), stdev(drawn_in) / (1 - 2 * cut / len(ranked)) if len(ranked) > 1 else 0.0


def noisy(beliefs: Beliefs, app: int, number: int, slowdown: float, iterations: int) -> float:
    """The mean that a simulated agent measures: that of `iterations` times which spread, drawn by a lot.

    Parameters
    ----------
    beliefs : Beliefs
        How much times spread, and the seed.
    app, number : int
        Number of the app, and how many batches it has had before.
    slowdown : float
        The true one.
    iterations : int
        How many are timed.
    """
    z = NORMAL[lot(beliefs.seed, number, app) % len(NORMAL)]
    return slowdown * max(1.0 + beliefs.spread * z / math.sqrt(iterations), 0.5)
