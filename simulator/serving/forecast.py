"""`forecast`: the attainment that a run will have, as a mean and an interval over draws of what may happen in it."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...profiles.profile import ModelProfile
from ...profiles.spread import Variation
from ...reprs import Shown
from ...seeds import spawned
from ...traces.trace import Trace
from ..placement import Placement
from .conditions import Conditions
from .outages import Outages
from .policy import TOLERANCE_S
from .reality import Reality
from .simulate import prepare, serve_really
from .times import draw_times

__all__ = ["Forecast", "forecast"]

AFTER_S = 60.0
"""Seconds that draws go on after the last arrival; what is served still later meets the first factors again."""


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
    """

    attainment: npt.NDArray[np.float64]
    requests: int
    level: float = 0.95

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
        return float(np.quantile(self.attainment, (1 - self.level) / 2, method="lower"))

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return float(np.quantile(self.attainment, (1 + self.level) / 2, method="higher"))

    @property
    def half_width(self) -> float:
        """Half of the interval's width."""
        return (self.high - self.low) / 2

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
    **serving
        Other options of `simulate`.

    Raises
    ------
    InputError
        On fewer than 2 draws, a level outside 0 … 1, a schedule of placements, or as `simulate`.
    """
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < 2:
        raise InputError(f"draws: an interval needs at least 2 draws (got {draws!r})")
    if not 0 < level < 1:
        raise InputError(f"level: expected a share between 0 and 1 (got {level})")
    if not isinstance(placement, Placement):
        raise InputError(f"placement: a forecast is of one Placement (got {type(placement).__name__})")
    engine = serving.pop("engine", "compiled")
    _, (table,), rules = prepare(placement, trace, profiles, engine, **serving)
    rows = (trace.arrival, trace.model, trace.slo)
    limit = trace.arrival + trace.slo + TOLERANCE_S
    attained = np.empty(draws)
    for k in range(draws):
        own = spawned(seed, k)
        times = None if variation is None else draw_times(variation, placement, trace.duration + AFTER_S, own)
        conditions = Conditions(times, outages(own) if callable(outages) else outages)
        conditions.check(placement)
        clock = np.zeros((table.n_groups, table.latency.shape[2]))
        outcome, _ = serve_really(rows, table, engine, rules, clock, Reality(conditions, placement), recorded=False)
        attained[k] = np.mean(outcome.finish <= limit)
    return Forecast(attained, len(trace), level)
