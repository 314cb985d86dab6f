"""`foretold`: what is to be expected of judged stretches of a run, from how steps varied in the stretches between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ....profiles.llm.iteration import IterationCost
from ....simulator.llm.forecast import forecast
from ..steps import EngineStep, level_of, moves, stretches, times_of_steps
from .cell import SHOWN, Cell, figures_of

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
        What its iterations take, by the stretches between the judged ones.
    steps : list of EngineStep
        All its steps.
    stretch_s : float
        Seconds of a stretch. The first one, the third one, and so on tell what steps take; the others are judged.
    """

    policy: str
    options: dict[str, Any]
    cost: IterationCost
    steps: list[EngineStep]
    stretch_s: float

    @property
    def told(self) -> list[list[EngineStep]]:
        """Steps of each stretch that tells what steps take."""
        return stretches(self.steps, self.stretch_s)[::2]

    @property
    def judged(self) -> list[EngineStep]:
        """Steps of the judged stretches."""
        return [step for one in stretches(self.steps, self.stretch_s)[1::2] for step in one]


def foretold(
    cells: Sequence[tuple[Cell, Ran]], draws: int, seed: int, tell: Callable[[str], None]
) -> list[Cell]:  # fmt: skip
    """Cells with their expectations.

    Steps vary as they did in the stretches between the judged ones. Mean levels of the two kinds of stretches differ by
    chance: the less, the more of them there are. By how much single neighbours differ is learnt from all cells
    (`moves`). Of the judged stretches nothing is used but, afterwards, the level of their steps, to say where what lies
    outside comes from.
    """
    moved = moves([ran.told for _, ran in cells], [ran.cost for _, ran in cells])
    found: list[Cell] = []
    for cell, ran in cells:
        tell(f"{cell.model}, {cell.setting}, {cell.level}: {draws} draws")
        told_by = ran.told
        # The judged stretches are cut out of the recording.
        recorded = [
            step._replace(start=step.start - k * ran.stretch_s) for k, one in enumerate(told_by) for step in one
        ]
        times = times_of_steps(recorded, ran.cost, moved / np.sqrt(len(told_by)))
        same: dict[str, Any] = {
            "cost": ran.cost,
            "config": ran.options,
            "policy": ran.policy,
            "draws": draws,
            "seed": seed,
            "tell": partial(figures_of, rows=cell.rows),
        }
        told = forecast(cell.real.trace, times, **same)
        shift = level_of(ran.judged or recorded, ran.cost) / level_of(recorded, ran.cost)
        whole = replace(cell, foretold=told, varies=times.explain(), shift=shift)
        if whole.outside:
            known = replace(times, steps=replace(times.steps, level_sd=0.0)).scaled(shift)
            whole = replace(whole, at_level=forecast(cell.real.trace, known, **same))
        worst = max((abs(whole.differences[name]) for name in SHOWN[:5]), default=float(np.nan))
        tell(f"{cell.model}, {cell.setting}, {cell.level}: off by {worst:.1%} at most, {len(whole.outside)} outside")
        found.append(whole)
    return found
