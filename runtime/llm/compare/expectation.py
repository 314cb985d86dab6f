"""`foretold`: what is to be expected of runs of the real engine, from how its steps varied on other requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ....profiles.llm.iteration import IterationCost
from ....simulator.llm.forecast import forecast
from ..steps import level_of, level_sd, times_of_steps
from .cell import SHOWN, Cell
from .job import Served

__all__ = ["Ran", "foretold"]


@dataclass(frozen=True, slots=True)
class Ran:
    """How a cell was served.

    Parameters
    ----------
    policy : str
        Its scheduler.
    options : dict
        The scheduler's options.
    cost : IterationCost
        What its iterations take, by other requests.
    served : Served
        Its steps, and those of the other requests.
    """

    policy: str
    options: dict[str, Any]
    cost: IterationCost
    served: Served


def foretold(
    cells: Sequence[tuple[Cell, Ran]], draws: int, seed: int, tell: Callable[[str], None]
) -> list[Cell]:  # fmt: skip
    """Cells with their expectations.

    Each cell's steps vary as they did right before it, on other requests. How much the device's level changes from
    then to the run is learnt from all cells' phases of other requests (`level_sd`). Of a cell's own run nothing is
    used but, afterwards, the level of its steps, to say where what lies outside comes from.
    """
    shifts = level_sd([ran.served.before for _, ran in cells], [ran.cost for _, ran in cells])
    found: list[Cell] = []
    for cell, ran in cells:
        tell(f"{cell.model}, {cell.setting}, {cell.level}: {draws} draws")
        times = times_of_steps(ran.served.before, ran.cost, shifts)
        same: dict[str, Any] = {
            "cost": ran.cost,
            "config": ran.options,
            "policy": ran.policy,
            "draws": draws,
            "seed": seed,
        }
        told = forecast(cell.real.trace, times, **same)
        shift = level_of(ran.served.steps, ran.cost) / level_of(ran.served.before, ran.cost)
        whole = replace(cell, foretold=told, varies=times.explain(), shift=shift)
        if whole.outside:
            known = replace(times, steps=replace(times.steps, level_sd=0.0)).scaled(shift)
            whole = replace(whole, at_level=forecast(cell.real.trace, known, **same))
        worst = max((abs(whole.differences[name]) for name in SHOWN[:5]), default=float(np.nan))
        tell(f"{cell.model}, {cell.setting}, {cell.level}: off by {worst:.1%} at most, {len(whole.outside)} outside")
        found.append(whole)
    return found
