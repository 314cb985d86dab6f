"""`expect`: the attainment that a run will have, as `forecast` says it, or as one simulation where nothing varies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ....profiles.profile import ModelProfile
from ....profiles.spread import Variation
from ....simulator.placement import Placement
from ....simulator.serving.forecast import Forecast, forecast
from ....simulator.serving.simulate import simulate
from ....traces.trace import Trace

__all__ = ["at_level", "expect"]


def expect(
    placement: Placement,
    trace: Trace,
    profiles: Mapping[str, ModelProfile],
    variation: Variation,
    *,
    draws: int,
    seed: int = 0,
    counted: npt.NDArray[np.bool_] | None = None,
    **serving: Any,
) -> Forecast:
    """Simulate a trace with times drawn anew each time; once where nothing varies.

    Parameters
    ----------
    placement, trace, profiles
        What runs; the controller predicts with these profiles.
    variation : Variation
        What times really are, as factors on the profiles'.
    draws, seed : int
        How often, at least 2, and of what.
    counted : ndarray of bool, optional
        Requests that attainment is of; all if not given.
    **serving
        Options of `simulate`.

    Raises
    ------
    InputError
        On too few draws.
    """
    if variation.constant:
        once = replace(simulate(placement, trace, profiles, **serving), counted=counted)
        return Forecast(np.array([once.attainment]), len(trace) if counted is None else int(counted.sum()))
    return forecast(placement, trace, profiles, variation, draws=draws, seed=seed, counted=counted, **serving)


def at_level(variation: Variation, factor: float) -> Variation:
    """The same variation with stage times that are `factor` as long, and known to be."""
    return replace(variation, stages=replace(variation.stages.scaled(factor), level_sd=0.0))
