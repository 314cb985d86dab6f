"""Serving cases whose times vary: what varies, the draws, and what they come to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from ....errors import InputError
from ....profiles import ModelProfile
from ....profiles.spread import NO_VARIATION, Spread, Variation
from ....seeds import spawned
from ....simulator.placement import Placement
from ....simulator.serving import SimulationResult
from ....simulator.serving.conditions import Conditions
from ....simulator.serving.times import ServingTimes, draw_times
from ....traces.trace import Trace
from ..case import ServingCase

__all__ = ["LEVEL", "Drawn", "cautious", "drawn", "times_of", "variation_of"]

LEVEL = 0.95
"""Share of runs that an interval is to hold."""

AFTER_S = 60.0
"""Seconds that draws go on after the last arrival; what is still served then meets the same factors again."""

METRICS: Mapping[str, Callable[[SimulationResult], float]] = {
    "attainment": lambda r: r.attainment,
    "goodput": lambda r: r.goodput,
    "mean_latency": lambda r: r.mean_latency,
    "p50_latency": lambda r: r.latency(50.0),
    "p99_latency": lambda r: r.latency(99.0),
    "rejected": lambda r: float(r.rejected.sum()),
}
"""What is drawn an interval for."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """What a run is expected to be, over draws of its times.

    Parameters
    ----------
    draws : Mapping[str, ndarray of float64, shape (draws,)]
        Metric -> its value in each draw.
    middle : SimulationResult
        The draw whose attainment is the median.
    """

    draws: Mapping[str, np.ndarray[tuple[int], np.dtype[np.float64]]]
    middle: SimulationResult

    def mean(self, metric: str) -> float:
        """Mean of a metric."""
        return float(np.mean(self.draws[metric]))

    def interval(self, metric: str) -> tuple[float, float]:
        """The interval that holds `LEVEL` of the draws."""
        tail = (1 - LEVEL) / 2
        values = self.draws[metric]
        low, high = np.quantile(values, tail, method="lower"), np.quantile(values, 1 - tail, method="higher")
        return float(low), float(high)


def variation_of(case: ServingCase, profiles: Mapping[str, ModelProfile]) -> Variation:
    """How the case's times vary: as it says, else as its profile was measured to.

    Raises
    ------
    InputError
        If times are to be drawn and neither says how.
    """
    said = case.serving.spread
    if case.serving.times == "mean":
        return NO_VARIATION
    if said is not None:
        return Variation(stages=Spread(visits=said.visits, runs=said.runs, correlation_s=said.correlation))
    found: Variation = getattr(profiles, "variation", NO_VARIATION)
    if found.constant:
        raise InputError(
            "serving.times: the profile does not say how times vary; measure a plan in service (meshwright measure "
            "plan.json --out served.json) and take --profile served.json, or give serving.spread"
        )
    return found


def cautious(
    case: ServingCase, profiles: Mapping[str, ModelProfile], variation: Variation
) -> tuple[Mapping[str, ModelProfile], Variation]:
    """What a controller predicts with that the case makes cautious, and how times vary around that.

    Predictions take a quantile of the stages' times: a request is then admitted only if it would be in time in so many
    of the visits that it makes.
    """
    quantile = case.serving.admission_quantile
    if quantile is None:
        return profiles, variation
    factor = variation.stages.quantile(quantile)
    longer = {name: profile.scaled(factor) for name, profile in profiles.items()}
    return longer, replace(variation, stages=variation.stages.scaled(1 / factor))


def times_of(variation: Variation, placement: Placement, traffic: Trace, seed: int) -> ServingTimes:
    """What times are in one draw."""
    return draw_times(variation, placement, traffic.duration + AFTER_S, seed)


def drawn(
    case: ServingCase,
    conditions: Callable[[int], Conditions | None],
    simulated: Callable[[Conditions | None], SimulationResult],
) -> Drawn:
    """Simulate a case `serving.draws` times.

    Parameters
    ----------
    case : ServingCase
        Whose draws and seed count.
    conditions : callable
        Draws what happens, under a seed.
    simulated : callable
        Simulates under these conditions.
    """
    results = [simulated(conditions(spawned(case.seed, k))) for k in range(case.serving.draws)]
    order = np.argsort([r.attainment for r in results], kind="stable")
    values = {name: np.array([metric(r) for r in results]) for name, metric in METRICS.items()}
    return Drawn(values, results[int(order[len(order) // 2])])
