"""`expect`: the attainment that a run will have, as a mean and an interval over draws of what times will be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ....profiles.profile import ModelProfile
from ....profiles.spread import Variation
from ....simulator.placement import Placement
from ....simulator.serving.conditions import Conditions
from ....simulator.serving.simulate import simulate
from ....simulator.serving.times import ServingSpread
from ....traces.trace import Trace

__all__ = ["Expectation", "expect"]

DRAWS = 200
"""Draws of an interval: five of them lie beyond each end of the middle 95 %."""

LEVEL = 0.95
"""Share of runs that an interval is to hold."""


@dataclass(frozen=True, eq=False)
class Expectation:
    """What a run of a trace is expected to attain.

    Parameters
    ----------
    attainment : ndarray of float64, shape (draws,)
        Attainment in each draw.
    requests : int
        Requests of the trace.
    """

    attainment: npt.NDArray[np.float64]
    requests: int

    @property
    def mean(self) -> float:
        """Mean over draws."""
        return float(np.mean(self.attainment))

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return float(np.quantile(self.attainment, (1 - LEVEL) / 2, method="lower"))

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return float(np.quantile(self.attainment, (1 + LEVEL) / 2, method="higher"))

    @property
    def half_width(self) -> float:
        """Half of the interval's width."""
        return (self.high - self.low) / 2

    def holds(self, real: float) -> bool:
        """Whether a measured attainment lies inside; half a request beyond an end is on it."""
        slack = 0.5 / max(self.requests, 1)
        return self.low - slack <= real <= self.high + slack


def expect(
    placement: Placement,
    trace: Trace,
    profiles: Mapping[str, ModelProfile],
    variation: Variation,
    *,
    draws: int = DRAWS,
    seed: int = 0,
    **serving: Any,
) -> Expectation:
    """Simulate a trace with times drawn anew each time; one simulation where nothing varies.

    Parameters
    ----------
    placement, trace, profiles
        What runs; the controller predicts with these profiles.
    variation : Variation
        What times really are, as factors on the profiles'.
    draws, seed : int
        How often, at least 2, and of what.
    **serving
        Options of `simulate`.

    Raises
    ------
    InputError
        On too few draws.
    """
    if variation.constant:
        return Expectation(np.array([simulate(placement, trace, profiles, **serving).attainment]), len(trace))
    if draws < 2:
        raise InputError(f"draws: an interval needs at least 2 (got {draws})")
    spread = ServingSpread(variation.stages, variation.hops, variation.answers)
    horizon = trace.duration + 5.0  # what comes last is served a little later
    drawn = (Conditions(times=spread.draw(placement, horizon, seed + k)) for k in range(draws))
    found = [simulate(placement, trace, profiles, conditions=one, **serving).attainment for one in drawn]
    return Expectation(np.array(found), len(trace))


def at_level(variation: Variation, factor: float) -> Variation:
    """The same variation with stage times that are `factor` as long, and known to be."""
    return replace(variation, stages=replace(variation.stages.scaled(factor), level_sd=0.0))
