"""`forecast`: the attainment that a run will have, as a mean and an interval over draws of what may happen in it."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...profiles.profile import ModelProfile
from ...profiles.spread import NO_VARIATION, Variation
from ...reprs import Shown
from ...seeds import spawned
from ...traces.trace import Trace
from ..placement import Placement
from .conditions import Conditions
from .outages import Outages
from .result import SimulationResult
from .simulate import simulate
from .times import times_of

__all__ = ["Forecast", "forecast", "over_draws"]

METRICS: Mapping[str, Callable[[SimulationResult], float]] = {
    "attainment": lambda r: r.attainment,
    "goodput": lambda r: r.goodput,
    "mean_latency": lambda r: r.mean_latency,
    "p50_latency": lambda r: r.latency(50.0),
    "p99_latency": lambda r: r.latency(99.0),
    "rejected": lambda r: float((r.rejected if r.counted is None else r.rejected & r.counted).sum()),
}
"""What a forecast knows of each draw."""


@dataclass(frozen=True, eq=False, repr=False)
class Forecast(Shown):
    """What a run is expected to attain.

    Parameters
    ----------
    attainment : ndarray of float64, shape (draws,)
        In each draw.
    requests : int
        Requests of the trace.
    level : float
        Share of runs that the interval is to hold.
    draws : mapping
        Metrics by name, their value in each draw: `METRICS` where they were simulated.
    """

    attainment: npt.NDArray[np.float64]
    requests: int
    level: float = 0.95
    draws: Mapping[str, npt.NDArray[np.float64]] = field(default_factory=dict[str, npt.NDArray[np.float64]])

    def _headline(self) -> str:
        return (
            f"attainment {self.mean:.2%}, {self.low:.2%} to {self.high:.2%} in {self.level:.0%} of runs "
            f"({len(self.attainment)} draws)"
        )

    @property
    def mean(self) -> float:
        """Mean over draws."""
        return float(np.mean(self.attainment))

    @property
    def low(self) -> float:
        """Lower end of the interval: a draw, and not between two."""
        return self._interval(self.attainment)[0]

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return self._interval(self.attainment)[1]

    @property
    def half_width(self) -> float:
        """Half of the interval's width."""
        return (self.high - self.low) / 2

    @property
    def middle(self) -> int:
        """The draw whose attainment is the median, from 0; of an even number the one above."""
        return int(np.argsort(self.attainment, kind="stable")[len(self.attainment) // 2])

    def mean_of(self, metric: str) -> float:
        """Mean of a metric over the draws that have it: latencies are of served requests; NaN if none has."""
        known = self.draws[metric][np.isfinite(self.draws[metric])]
        return float(np.mean(known)) if len(known) else float("nan")

    def interval_of(self, metric: str) -> tuple[float, float]:
        """The interval of a metric, over the draws that have it."""
        known = self.draws[metric][np.isfinite(self.draws[metric])]
        return self._interval(known) if len(known) else (float("nan"), float("nan"))

    def _interval(self, values: npt.NDArray[np.float64]) -> tuple[float, float]:
        tail = (1 - self.level) / 2
        low, high = np.quantile(values, tail, method="lower"), np.quantile(values, 1 - tail, method="higher")
        return float(low), float(high)

    def percentile(self, percent: float) -> float:
        """The attainment that so many percent of the draws do not exceed."""
        if not 0 <= percent <= 100:
            raise InputError(f"forecast: expected a percentile from 0 to 100 (got {percent})")
        return float(np.percentile(self.attainment, percent))

    def holds(self, real: float) -> bool:
        """Whether a measured attainment lies in the interval; half a request beyond an end is on it."""
        slack = 0.5 / max(self.requests, 1)
        return self.low - slack <= real <= self.high + slack


def forecast(
    placement: Placement,
    trace: Trace,
    profiles: Mapping[str, ModelProfile],
    variation: Variation | None = None,
    *,
    outages: Outages | Callable[[int], Outages] | None = None,
    draws: int = 200,
    seed: int = 0,
    level: float = 0.95,
    counted: npt.NDArray[np.bool_] | None = None,
    **serving: Any,
) -> Forecast:
    """Simulate one trace many times, each time with times and outages of its own.

    Draw k has seeds that are spawned from `seed` and k: all placements meet the same draws.

    Parameters
    ----------
    placement, trace, profiles
        What runs; the controller predicts with these profiles.
    variation : Variation, optional
        How times vary; they do not if not given.
    outages : Outages or callable, optional
        When groups are away: always so, or drawn under the seed that the function is given.
    draws : int
        How often, at least 2. In 200 draws five lie beyond each end of an interval of 95 %.
    seed : int
        Seed.
    level : float
        Share of runs that the interval is to hold, between 0 and 1.
    counted : ndarray of bool, shape (n,), optional
        Requests that metrics count; all if not given.
    **serving
        Other options of `simulate`.

    Raises
    ------
    InputError
        On fewer than 2 draws, a level outside 0 … 1, a schedule of placements, or as `simulate`.
    """
    if not isinstance(placement, Placement):
        raise InputError(f"placement: a forecast is of one Placement (got {type(placement).__name__})")
    varies = NO_VARIATION if variation is None else variation

    def one(own: int) -> SimulationResult:
        away = outages(own) if callable(outages) else outages
        met = Conditions(times_of(varies, placement, trace, own), away)
        result = simulate(placement, trace, profiles, conditions=met, **serving)
        return result if counted is None else replace(result, counted=counted)

    return over_draws(one, draws=draws, seed=seed, level=level)


def over_draws(simulated: Callable[[int], SimulationResult], *, draws: int, seed: int, level: float = 0.95) -> Forecast:
    """Simulate under `draws` seeds that are spawned from one; only their metrics are kept.

    Parameters
    ----------
    simulated : callable
        Simulates one run under a seed, of everything that is random in it.
    draws, seed, level
        As in `forecast`.

    Raises
    ------
    InputError
        On fewer than 2 draws, or a level outside 0 … 1; and what `simulated` raises.
    """
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < 2:
        raise InputError(f"draws: an interval needs at least 2 draws (got {draws!r})")
    if not 0 < level < 1:
        raise InputError(f"level: expected a share between 0 and 1 (got {level})")
    found = {name: np.empty(draws) for name in METRICS}
    requests = 0
    for k in range(draws):
        result = simulated(spawned(seed, k))
        requests = len(result) if result.counted is None else int(result.counted.sum())
        for name, metric in METRICS.items():
            found[name][k] = metric(result)
    return Forecast(found["attainment"], requests, level, found)
