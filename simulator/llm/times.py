"""`StepDraws`: the factors of one run's steps, which the reference and the compiled engine read alike.

The k-th step of an engine that computes something (from 0), starting at t seconds, takes its cost times the largest
factor of the engine's devices at (t, k). Swapping keeps its time. Engine e has the devices from e times the ranks on;
where a fleet grows beyond the engines that were drawn for, streams are used again in turn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...errors import InputError
from ...profiles.llm.times import StepTimes
from ...profiles.spread import Spread
from ..draws import Draws, draw
from .workload.requests import LLMTrace

__all__ = ["StepDraws", "draw_steps", "horizon_of", "times_of"]


@dataclass(frozen=True, slots=True, eq=False)
class StepDraws:
    """The factors of one run.

    Parameters
    ----------
    decodes : Draws
        Of steps that only decode, by device.
    prompts : Draws
        Of steps that compute prompt tokens: other quantiles on the same paths and keys.
    ranks : int
        Devices of an engine.
    """

    decodes: Draws
    prompts: Draws
    ranks: int = 1

    def __post_init__(self) -> None:
        if len(self.decodes) != len(self.prompts) or self.ranks < 1 or len(self.decodes) % self.ranks:
            raise InputError(
                f"times: expected {self.ranks} streams for each engine (got {len(self.decodes)} of decodes, "
                f"{len(self.prompts)} of prompts)"
            )

    @property
    def engines(self) -> int:
        """Engines that have streams of their own."""
        return len(self.decodes) // self.ranks

    def ratio(self, engine: int, at_s: float, step: int, prompts: bool) -> float:
        """The factor of an engine's `step`-th step, which starts at `at_s`."""
        drawn, first = self.prompts if prompts else self.decodes, engine % self.engines * self.ranks
        return max(drawn.ratio(first + rank, at_s, step) for rank in range(self.ranks))


def draw_steps(
    times: StepTimes | Spread, engines: int, horizon_s: float, seed: int, *names: str | int
) -> StepDraws:  # fmt: skip
    """Draw the factors of one run.

    Parameters
    ----------
    times : StepTimes or Spread
        What varies; a `Spread` is that of every step.
    engines : int
        Engines, at least 1.
    horizon_s : float
        Seconds that the run takes, about; paths repeat after that.
    seed : int
        Seed. Policies and configurations meet the same slow seconds under one seed.
    *names : str or int
        Which run under that seed.

    Raises
    ------
    InputError
        On what is no variation, or an argument out of its range.
    """
    told = StepTimes(times) if isinstance(times, Spread) else times
    if not isinstance(told, StepTimes):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"times: expected StepTimes or Spread (got {type(times).__name__})")
    decodes = draw(told.steps, engines * told.ranks, horizon_s, seed, "llm", "steps", *names)
    own = np.asarray(told.of_prompts.visits, dtype=np.float64)
    return StepDraws(decodes, replace(decodes, visits=own), told.ranks)


SPARE_S = 60.0
"""Seconds beyond twice the span of arrivals for which paths are drawn before they repeat: a guess."""


def horizon_of(trace: LLMTrace) -> float:
    """Seconds for which factors are drawn: as the end is not known, twice the span of arrivals and a minute."""
    return 2.0 * float(np.nanmax(trace.arrival)) + SPARE_S


def times_of(
    given: StepTimes | Spread | StepDraws | None, trace: LLMTrace, engines: int, seed: int
) -> StepDraws | None:
    """The factors that a simulation uses: those given, or drawn by its seed; None where nothing varies."""
    if given is None or isinstance(given, StepDraws):
        return given
    if given.constant:
        return None
    return draw_steps(given, engines, horizon_of(trace), seed)
