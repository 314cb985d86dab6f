"""`EngineStep`: what single steps of the real engine took, and what follows for the simulated one's times."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...profiles.llm.iteration import Iteration, IterationCost
from ...profiles.llm.measure_rounds import OURS
from ...profiles.llm.times import StepTimes

__all__ = [
    "EngineStep", "Moment", "level_of", "level_sd", "moves", "steps_of", "stretches", "times_of_steps", "undisturbed",
]  # fmt: skip

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
    """A step from the end of the one before to its own: when, how long by wall clock and processor time, and what."""

    start: float
    seconds: float
    core_s: float
    iteration: Iteration


def steps_of(moments: Sequence[Moment], due: Sequence[float] = ()) -> list[EngineStep]:
    """Steps in a row, each from the end of the one before, as its tokens are out by then.

    So what comes between two steps belongs to the second, and handing over requests to the step that computes their
    prompts. After a pause a step begins when the request was due that ended it: waking up belongs to it. `due` holds
    those times in ascending order; without them it begins when it was called.
    """
    found: list[EngineStep] = []
    for k, a in enumerate(moments):
        if a.iteration is None:
            continue
        begin, core = a.begin, a.core
        if k and moments[k - 1].busy:
            begin, core = moments[k - 1].end, moments[k - 1].core_end
        elif len(due):
            first = bisect_right(due, moments[k - 1].end if k else float("-inf"))
            begin = min(begin, due[first]) if first < len(due) else begin
            core = a.core - (a.begin - begin)  # asleep, and nobody else's time
        found.append(EngineStep(begin, a.end - begin, a.core_end - core, a.iteration))
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


def stretches(steps: Sequence[EngineStep], seconds: float) -> list[list[EngineStep]]:
    """The steps that began in each stretch of so many seconds, from time 0 on; empty where none did."""
    found: list[list[EngineStep]] = []
    for step in steps:
        number = max(0, int(step.start / seconds))
        found += [[] for _ in range(number + 1 - len(found))]
        found[number].append(step)
    return found


def moves(rows: Sequence[Sequence[Sequence[EngineStep]]], costs: Sequence[IterationCost]) -> float:
    """By how much levels of neighbouring stretches differ: root mean square over all rows of stretches, a share."""
    squares: list[float] = []
    for row, cost in zip(rows, costs, strict=True):
        levels = np.array([level_of(stretch, cost) if stretch else np.nan for stretch in row])
        gaps = np.diff(levels) / np.nanmean(levels)
        squares += (gaps[np.isfinite(gaps)] ** 2).tolist()
    return float(min(0.49, np.sqrt(np.mean(squares)))) if squares else 0.0


def level_sd(phases: Sequence[Sequence[EngineStep]], costs: Sequence[IterationCost]) -> float:
    """By how much the level of one stretch of time differs from that of the next: standard deviation, a share.

    Root mean square over the phases' neighbouring quarters of their levels' differences. A machine's slow seconds have
    flicker noise (1/f): there this figure is the same for stretches of any length (the Allan deviation is flat), so
    that what quarters of a phase tell holds from the phase to the run after it.
    """
    rows: list[list[list[EngineStep]]] = []
    for steps in phases:
        span = float(steps[-1].start - steps[0].start) or 1.0
        quarter = span * (1 + 1e-9) / WINDOWS
        rows.append(stretches([step._replace(start=step.start - steps[0].start) for step in steps], quarter))
    return moves(rows, costs)


def times_of_steps(steps: Sequence[EngineStep], cost: IterationCost, spread_of_level: float = 0.0) -> StepTimes:
    """How steps vary around their cost: all of them, disturbed or not, as a user waits for all."""
    start, seconds, expected = _arrays(steps, cost)
    prompts = np.array([bool(step.iteration.prefill) for step in steps])
    return StepTimes.of_steps(start, seconds, expected, prompts, level_sd=round(spread_of_level, 5))
