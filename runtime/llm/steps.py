"""`EngineStep`: what single steps of the real engine took, and what follows for the simulated one's times."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...profiles.llm.iteration import Iteration, IterationCost
from ...profiles.llm.measure_rounds import OURS
from ...profiles.llm.times import StepTimes

__all__ = ["EngineStep", "Moment", "level_of", "level_sd", "steps_of", "times_of_steps", "undisturbed"]

WINDOWS = 4
"""Parts of a phase whose levels are compared: few, so that what single steps differ by averages out. A guess."""


class Moment(NamedTuple):
    """One call of the engine's `step`: clocks before and after it, what it computed, and whether work was left."""

    begin: float
    core: float
    end: float
    core_end: float
    iteration: Iteration | None
    busy: bool


class EngineStep(NamedTuple):
    """A step from its begin to the next one's: when, how long by wall clock and by processor time, and what."""

    start: float
    seconds: float
    core_s: float
    iteration: Iteration


def steps_of(moments: Sequence[Moment], due: Sequence[float] = ()) -> list[EngineStep]:
    """Steps in a row. What comes between two belongs to the first; before a pause, what does so in the median.

    After a pause a step begins when the request was due that ended it: waking up and taking the request over belong to
    it. `due` holds those times in ascending order; without them it begins when it was called.
    """
    gaps = [(b.begin - a.end, b.core - a.core_end) for a, b in pairwise(moments) if a.busy]
    wall, core = (float(np.median([gap[k] for gap in gaps])) if gaps else 0.0 for k in (0, 1))
    found: list[EngineStep] = []
    for k, a in enumerate(moments):
        if a.iteration is None:
            continue
        goes_on = a.busy and k + 1 < len(moments)
        until, had = (moments[k + 1].begin, moments[k + 1].core) if goes_on else (a.end + wall, a.core_end + core)
        begin = a.begin
        if len(due) and (k == 0 or not moments[k - 1].busy):
            first = bisect_right(due, moments[k - 1].end if k else float("-inf"))
            begin = min(begin, due[first]) if first < len(due) else begin
        found.append(EngineStep(begin, until - begin, had - a.core + a.begin - begin, a.iteration))
    return found


def undisturbed(steps: Sequence[EngineStep]) -> list[tuple[Iteration, float]]:
    """Steps that had their core throughout, and their seconds."""
    return [(step.iteration, step.seconds) for step in steps if step.core_s >= OURS * step.seconds]


def _arrays(steps: Sequence[EngineStep], cost: IterationCost) -> tuple[npt.NDArray[np.float64], ...]:
    if not steps:
        raise InputError("in service: no step to learn from; serve longer")
    told = [(step.start, step.seconds, cost.seconds(step.iteration)) for step in steps]
    return tuple(np.array(column, dtype=np.float64) for column in zip(*told, strict=True))


def level_of(steps: Sequence[EngineStep], cost: IterationCost) -> float:
    """Time of all steps over their cost."""
    _, seconds, expected = _arrays(steps, cost)
    return float(seconds.sum() / expected.sum())


def level_sd(phases: Sequence[Sequence[EngineStep]], costs: Sequence[IterationCost]) -> float:
    """By how much the level of one stretch of time differs from that of the next: standard deviation, a share.

    Root mean square over the phases' neighbouring quarters of their levels' differences. A machine's slow seconds have
    flicker noise (1/f): there this figure is the same for stretches of any length (the Allan deviation is flat), so
    that what quarters of a phase tell holds from the phase to the run after it.
    """
    squares: list[float] = []
    for steps, cost in zip(phases, costs, strict=True):
        start, seconds, expected = _arrays(steps, cost)
        span = float(start[-1] - start[0]) or 1.0
        part = np.minimum(((start - start[0]) / span * WINDOWS).astype(np.int64), WINDOWS - 1)
        taken, said = (np.bincount(part, weights=x, minlength=WINDOWS) for x in (seconds, expected))
        levels = np.divide(taken, said, out=np.full(WINDOWS, np.nan), where=said > 0)
        gaps = np.diff(levels) / np.nanmean(levels)
        squares += (gaps[np.isfinite(gaps)] ** 2).tolist()
    return float(min(0.49, np.sqrt(np.mean(squares)))) if squares else 0.0


def times_of_steps(steps: Sequence[EngineStep], cost: IterationCost, spread_of_level: float = 0.0) -> StepTimes:
    """How steps vary around their cost: all of them, disturbed or not, as a user waits for all."""
    start, seconds, expected = _arrays(steps, cost)
    prompts = np.array([bool(step.iteration.prefill) for step in steps])
    return StepTimes.of_steps(start, seconds, expected, prompts, level_sd=round(spread_of_level, 5))
