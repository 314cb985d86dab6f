"""Sharing cases whose times vary: the draws, and what they come to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ...simulator.forecast import Forecast
from ...simulator.sharing import Policy, SharingResult, SharingWorld, draw_speeds, simulate
from .case import SharingCase
from .measures import measures

__all__ = ["MAIN", "drawn_world", "forecast"]

MAIN = ("max_rho", "mean_completion_s", "gpu_hours")
"""Metrics whose intervals studies know."""


def drawn_world(case: SharingCase, world: SharingWorld, run: int = 0) -> SharingWorld:
    """The world in one draw of its times, which is the same for every policy; as it is, where they do not vary.

    Raises
    ------
    InputError
        If slow windows are too short for so much work.
    """
    if case.times == "mean" or case.spread is None:
        return world
    speeds = draw_speeds(case.spread.spread(), world.cluster, world.apps, case.seed, run)
    return replace(world, speeds=speeds)


def forecast(
    case: SharingCase, world: SharingWorld, policy: Policy, *, engine: Any = "auto",
    tell: Callable[[SharingResult], dict[str, float]] = measures, progress: Callable[[int], None] | None = None,
) -> Forecast:  # fmt: skip
    """Simulate a case `draws` times. A metric that some draw does not know (NaN) is left out.

    Raises
    ------
    InputError
        If an app never ends, or slow windows are too short for so much work.
    """
    found: list[dict[str, float]] = []
    for run in range(case.draws):
        if progress is not None:
            progress(run)
        found.append(tell(simulate(drawn_world(case, world, run), policy, engine=engine)))
    rows = {name: np.array([one[name] for one in found]) for name in found[0]}
    return Forecast({name: values for name, values in rows.items() if np.isfinite(values).all()})
