"""What a checkpoint and a restart cost on this machine, measured; and what a run with failures will take by that.

The simulation is that of `simulator.training.goodput`, told the same script. Its costs are means of a measurement, and
the run that is predicted has costs of its own: each is drawn from Student's predictive distribution (mean of m new
observations, given n old ones), and the run is simulated for each draw. The interval is that of the draws.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ....errors import InputError
from ....profiles.graph import Graph
from ....reprs import Shown
from ....seeds import generator
from ....simulator.training.goodput import Checkpoints, Machines, Strike
from ....simulator.training.goodput.compiled import run_compiled
from ....simulator.training.goodput.lives import keys_of
from ....simulator.training.goodput.record import Record
from ....simulator.training.plan.file import TrainingPlan
from ..options import RunOptions
from .result import RecoveredRun
from .run import run_with_failures

__all__ = ["Costs", "Forecast", "forecast", "measure_costs"]

BLOCKS, RESTARTS = 6, 3
"""Checkpoints of the run that is measured, and restarts: a guess at what is worth waiting for. Student's distribution
makes the interval wider where they are few."""

Floats = np.ndarray[tuple[int], np.dtype[np.float64]]


@dataclass(frozen=True, eq=False, repr=False)
class Costs(Shown):
    """What was measured.

    Parameters
    ----------
    iteration_s : array
        Mean seconds of an iteration, of each attempt: those of one are alike, as long as its processes live.
    checkpoint_s, restart_s : array
        Seconds of each checkpoint, and of each restart from a kill until training goes on at its usual pace.
    start_s : array
        Seconds by which the first iteration of a run took longer than others.
    """

    iteration_s: Floats
    checkpoint_s: Floats
    restart_s: Floats
    start_s: Floats

    def _headline(self) -> str:
        each = (self.iteration_s, self.checkpoint_s, self.restart_s)
        means = [float(x.mean()) if len(x) else float("nan") for x in each]
        return "iteration {:.4g} s, checkpoint {:.4g} s, restart {:.4g} s".format(*means)

    @classmethod
    def of(cls, run: RecoveredRun) -> Costs:
        """Of a run; the first iteration after each start, which warms up, is left out of the means."""
        attempts: list[list[float]] = []
        for before, event in zip(run.events, run.events[1:], strict=False):
            if before.what == "begins":
                attempts.append([])
            elif event.what == "iteration":
                attempts[-1].append(event.at_s - before.at_s)
        means = [float(np.mean(took)) for took in attempts if took]
        return cls(np.array(means), run.checkpoints_s, run.restarts_s, run.starts_s[:1])

    def and_of(self, run: RecoveredRun) -> Costs:
        """With what another run tells: one after the run that is predicted says what pace the machine came to."""
        more = Costs.of(run)
        names = ("iteration_s", "checkpoint_s", "restart_s", "start_s")
        return Costs(*(np.concatenate((getattr(self, name), getattr(more, name))) for name in names))


@dataclass(frozen=True, eq=False, repr=False)
class Forecast(Shown):
    """What a run will take.

    Parameters
    ----------
    wall_s : array
        Seconds of the simulated run, for each draw of its costs.
    record : Record
        The run at the mean costs.
    costs : Costs
        What was measured.
    """

    wall_s: Floats
    record: Record
    costs: Costs

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Ends of the prediction interval, seconds."""
        low, high = np.quantile(self.wall_s, [(1 - confidence) / 2, (1 + confidence) / 2])
        return float(low), float(high)

    def _headline(self) -> str:
        low, high = self.interval()
        return f"{self.record.wall_s:.4g} s, 95 % in {low:.4g} to {high:.4g} s"


def measure_costs(
    plan: TrainingPlan,
    graph: Graph,
    *,
    every: int,
    seed: int = 0,
    dtype: Literal["float32", "float64"] = "float32",
    options: RunOptions | None = None,
    progress: Callable[[str], None] | None = None,
) -> Costs:
    """Run some blocks of iterations with their checkpoints here, and kill a rank some times.

    Parameters
    ----------
    plan, graph, every, seed, dtype, options, progress
        As of `run_with_failures`.

    Raises
    ------
    InputError, RunError
        As of `run_with_failures`.
    """
    whole = run_with_failures(
        plan, graph, every=every, iterations=every * BLOCKS, seed=seed, dtype=dtype, options=options
    )
    found, restarts = Costs.of(whole), list[float]()
    starts, means = list(found.start_s), list(found.iteration_s)
    for turn in range(RESTARTS):
        if progress is not None:
            progress(f"restart {turn + 1} of {RESTARTS} is timed")
        # One block, killed in the middle: what a restart costs does not depend on what is lost.
        at = float(found.start_s.mean()) + 0.5 * every * float(found.iteration_s.mean())
        rank = turn % whole.ranks
        one = run_with_failures(
            plan, graph, strikes=[Strike(at, rank)], every=every, iterations=every, seed=seed, dtype=dtype,
            options=options,
        )  # fmt: skip
        restarts += list(one.restarts_s)
        starts += list(one.starts_s[:1])
        means += list(Costs.of(one).iteration_s)
    if len(restarts) < 2:
        raise InputError("run: no restart could be timed: iterations are too short to kill one; give a larger --every")
    return Costs(np.array(means), found.checkpoint_s, np.array(restarts), np.array(starts))


def forecast(
    costs: Costs, strikes: Sequence[Strike], *, ranks: int, every: int, iterations: int, draws: int = 400, seed: int = 0
) -> Forecast:
    """Simulate the run by what was measured.

    Parameters
    ----------
    costs : Costs
        What was measured.
    strikes : sequence of Strike
        The script.
    ranks, every, iterations : int
        Of the run.
    draws : int
        Of its costs, at least 100: a quantile of 2.5 % needs some.
    seed : int
        Of the draws.

    Raises
    ------
    InputError
        If there are too few draws.
    """
    if isinstance(draws, bool) or draws < 100:
        raise InputError(f"forecast: draws: expected at least 100 (got {draws!r})")
    keys, rng = keys_of(ranks, seed, 0), generator(seed, "training", "forecast")
    blocks = max(1, -(-iterations // every))

    def run(iteration_s: float, checkpoint_s: float, restart_s: float, start_s: float) -> Record:
        """The clock of the simulation begins when the first iteration is at its usual pace."""
        interval = every * iteration_s
        saves = Checkpoints(interval, min(checkpoint_s, interval), 0.0, restart_s)
        later = tuple(Strike(max(0.0, strike.at_s - start_s), strike.node) for strike in strikes)
        record = run_compiled(iterations * iteration_s, Machines(nodes=ranks, strikes=later), saves, keys, 100_000)
        rows = record.rows + np.array([start_s, 0, 0, 0, 0, 0])
        return replace(record, wall_s=record.wall_s + start_s, restart_s=record.restart_s + start_s, rows=rows)

    def drawn(values: Floats, new: int) -> Floats:
        """Means of `new` observations to come, given these."""
        if not len(values) or not new:
            return np.zeros(draws)
        n, mean = len(values), float(values.mean())
        if n < 2:
            return np.full(draws, mean)
        scale = float(values.std(ddof=1)) * (1 / n + 1 / new) ** 0.5
        return np.maximum(mean + scale * rng.standard_t(n - 1, draws), 0.1 * mean)  # no cost is negative

    measured = (costs.iteration_s, costs.checkpoint_s, costs.restart_s, costs.start_s)
    many = (len(strikes) + 1, blocks, len(strikes), 1)
    each = zip(*(drawn(values, new) for values, new in zip(measured, many, strict=True)), strict=True)
    walls = np.array([run(*map(float, one)).wall_s for one in each])
    return Forecast(walls, run(*(float(x.mean()) if len(x) else 0.0 for x in measured)), costs)
