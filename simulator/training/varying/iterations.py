"""`simulate_iterations`: many runs of a training plan whose times vary, and the interval in which a run will lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ....profiles.spread import Spread
from ....reprs import Shown
from ....seeds import generator
from ..engines import engine_of
from ..plan.file import TrainingPlan
from ..plan.links import plan_links, plan_timing
from ..plan.program import plan_program
from ..timing import prepared
from .drawn import Drawn, draw_times
from .times import TrainingTimes

__all__ = ["IterationTimes", "Repeats", "plan_times", "simulate_iterations"]

Floats = npt.NDArray[np.float64]
_STATISTICS: dict[str, Callable[[Floats], Floats]] = {
    "mean": lambda seconds: seconds.mean(axis=1),
    "median": lambda seconds: np.median(seconds, axis=1),
}


@dataclass(frozen=True, slots=True, repr=False)
class Repeats(Shown):
    """How many runs are drawn, and of how many iterations.

    Parameters
    ----------
    iterations : int
        Of one stretch of a run, which follow each other on one clock.
    stretches : int
        Of a run. Other work lies between them, so that each meets slow seconds of its own.
    draws : int
        Runs.
    seed : int
        Seed. Plans on the same devices meet the same slow seconds under one seed.

    Raises
    ------
    InputError
        On a number below 1.
    """

    iterations: int = 20
    stretches: int = 1
    draws: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("iterations", "stretches", "draws"):
            value = getattr(self, name)
            if isinstance(value, bool) or value < 1:
                raise InputError(f"repeats: {name}: expected an integer >= 1 (got {value!r})")


@dataclass(frozen=True, eq=False, repr=False)
class IterationTimes(Shown):
    """Iteration times of the runs that were drawn.

    Parameters
    ----------
    seconds : ndarray of float64, shape (draws, iterations)
        Of every iteration of every run.
    steady_s : float
        Seconds of an iteration in which nothing varies.
    """

    seconds: Floats
    steady_s: float

    def of_runs(self, statistic: Literal["mean", "median"] = "mean") -> Floats:
        """For each run, its mean or median seconds of an iteration."""
        return _STATISTICS[statistic](self.seconds)

    def expected_s(self, statistic: Literal["mean", "median"] = "mean") -> float:
        """What a run's mean or median iteration takes, in the mean over runs."""
        return float(self.of_runs(statistic).mean())

    def interval_s(
        self, probability: float = 0.95, statistic: Literal["mean", "median"] = "mean"
    ) -> tuple[float, float]:
        """Between which seconds a run's mean or median iteration lies with this probability.

        Raises
        ------
        InputError
            On a probability outside (0, 1).
        """
        if not 0 < probability < 1:
            raise InputError(f"interval: probability: expected a number between 0 and 1 (got {probability!r})")
        low, high = np.quantile(self.of_runs(statistic), [(1 - probability) / 2, (1 + probability) / 2])
        return float(low), float(high)

    def _headline(self) -> str:
        low, high = self.interval_s()
        runs, n = self.seconds.shape
        return (
            f"{self.expected_s():.4g} s an iteration; 95 % of {runs} runs of {n} iterations: {low:.4g} to {high:.4g} s"
        )


def plan_times(plan: TrainingPlan) -> TrainingTimes:
    """How the times of a plan vary, as they were measured; constant for a plan that was not."""
    if plan.service is None:
        return TrainingTimes()
    return TrainingTimes(Spread.from_dict(plan.service.passes), Spread.from_dict(plan.service.message_spread))


def simulate_iterations(
    plan: TrainingPlan, times: TrainingTimes | None = None, repeats: Repeats | None = None
) -> IterationTimes:
    """Draw runs of a plan.

    Parameters
    ----------
    plan : TrainingPlan
        What is run.
    times : TrainingTimes, optional
        How times vary; by default as they were measured with the plan.
    repeats : Repeats, optional
        How many runs of how many iterations; by default 200 of 20.

    Raises
    ------
    InputError
        On what `simulate_training` refuses.
    """
    repeats, times = repeats or Repeats(), times or plan_times(plan)
    program = plan_program(plan)
    links = plan_links(plan)
    costs = prepared(program, plan_timing(plan, links))
    timed = engine_of(plan, program, links, costs, "compiled")

    def seconds(drawn: Drawn | None = None) -> float:
        found = timed(drawn)
        arrived = found.arrived[~np.isnan(found.arrived)]
        return float(max(found.finish.max(initial=0.0), arrived.max(initial=0.0)))

    steady = seconds()
    # A run may be slower than steady, but paths repeat only after their end, so a little more does no harm.
    horizon = 2.0 * steady * repeats.iterations
    calm = TrainingTimes(replace(times.passes, level_sd=0.0), replace(times.messages, level_sd=0.0))
    out = np.empty((repeats.draws, repeats.stretches, repeats.iterations))
    for run in range(repeats.draws):
        levels = [
            # How well the level is known is one number for all of a run; `Spread.level_sd` is below 0.5.
            max(0.1, generator(repeats.seed, "training", name, run).normal(1.0, spread.level_sd))
            if spread.level_sd else 1.0
            for name, spread in (("passes", times.passes), ("messages", times.messages))
        ]  # fmt: skip
        for stretch in range(repeats.stretches):
            drawn = draw_times(calm, plan, horizon, repeats.seed, run, stretch)
            drawn = replace(
                drawn,
                passes=replace(drawn.passes, slow=drawn.passes.slow * levels[0]),
                messages=replace(drawn.messages, slow=drawn.messages.slow * levels[1]),
            )
            now = 0.0
            for k in range(repeats.iterations):
                took = seconds(drawn.at(now, k))
                out[run, stretch, k] = took
                now += took
    return IterationTimes(out.reshape(repeats.draws, -1), steady)
