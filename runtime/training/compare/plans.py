"""`compare_training`: runs plans and holds the measured iteration times against the simulated ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ....errors import InputError
from ....profiles.graph import Graph
from ....simulator.training.plan.file import TrainingPlan
from ....simulator.training.program.actions import Op
from ....simulator.training.simulate import simulate_training
from ..hand_plan import hand_plan
from ..measure.calibrate import Calibration, calibrate_training
from ..measure.calibrate_slices import calibrate_slices
from ..run import TrainingRun, run_training
from ..session import TrainingSession

__all__ = ["Compared", "TrainingComparison", "compare_training", "example_plans"]

COMPUTE = (Op.F, Op.B, Op.W, Op.UPDATE)
WITHIN = 0.10
"""Difference up to which a simulated iteration time counts as right. Our own bar: measured differences on a quiet
machine are up to 7 % (docs/training-run.md)."""

UNDISTURBED = 0.98
"""Share of an iteration's computing time in which ranks must have had their cores for it to count. A guess: on a quiet
machine ranks have them for 98.3 to 99.5 % of it (docs/training-run.md); what is below was disturbed by others."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Simulated and measured iteration time of one plan.

    Parameters
    ----------
    name : str
        Of the plan.
    simulated_s, measured_s : float
        Seconds of an iteration.
    own : float
        Share of the computing time in which ranks had their cores, over the iterations that counted.
    counted : int
        Number of iterations that counted.
    collective : float
        Share of the stages' calibrated time that goes into collectives.
    scatter_s : float
        Standard error of the measured median, seconds.
    """

    name: str
    simulated_s: float
    measured_s: float
    own: float
    counted: int
    collective: float
    scatter_s: float = 0.0

    @property
    def difference(self) -> float:
        """(simulated − measured) / measured."""
        return self.simulated_s / self.measured_s - 1.0


@dataclass(frozen=True)
class TrainingComparison:
    """All plans.

    Parameters
    ----------
    rows : tuple of Compared
        In the order given.
    """

    rows: tuple[Compared, ...]

    @property
    def worst(self) -> float:
        """Largest difference, as a fraction."""
        return max(abs(row.difference) for row in self.rows)

    @property
    def ordered(self) -> bool:
        """Whether the simulator orders the plans as the runs do."""
        by_simulated = sorted(self.rows, key=lambda row: row.simulated_s)
        return by_simulated == sorted(self.rows, key=lambda row: row.measured_s)

    @property
    def misplaced(self) -> tuple[tuple[str, str], ...]:
        """Pairs of plans that the simulator orders otherwise than the runs, by more than twice the runs' scatter."""
        return tuple(
            (a.name, b.name)
            for a in self.rows
            for b in self.rows
            if b.measured_s - a.measured_s > 2 * math.hypot(a.scatter_s, b.scatter_s) and a.simulated_s >= b.simulated_s
        )

    def __str__(self) -> str:
        lines = ["plan             | simulated | measured  | difference | collectives | cores ours | iterations"]
        lines += [
            f"{row.name:<16} | {row.simulated_s * 1e3:>6.1f} ms | {row.measured_s * 1e3:>6.1f} ms | "
            f"{row.difference:>+9.1%}  | {row.collective:>10.1%}  | {row.own:>9.1%}  | {row.counted}"
            for row in self.rows
        ]
        lines.append(
            f"largest difference {self.worst:.1%} ({'within' if self.worst <= WITHIN else 'beyond'} {WITHIN:.0%}), "
            f"order {self._order()}"
        )
        disturbed = [row.name for row in self.rows if row.own < UNDISTURBED]
        if disturbed:
            lines.append(
                f"others took the ranks' cores ('cores ours' below {UNDISTURBED:.0%}) in {', '.join(disturbed)}: run "
                "again on a quiet machine"
            )
        return "\n".join(lines)

    def _order(self) -> str:
        if self.ordered:
            return "as measured"
        if not self.misplaced:
            return "as measured, but for plans that the runs' scatter does not tell apart"
        return f"not as measured: {', '.join(f'{a} took less than {b}' for a, b in self.misplaced)}"


def compare_training(
    plans: Mapping[str, TrainingPlan],
    graph: Graph,
    *,
    rounds: int = 6,
    iterations: int = 4,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
    cores: Sequence[int] | None = None,
    session: TrainingSession | None = None,
) -> TrainingComparison:
    """Calibrate, simulate and run each plan in every round; compare the medians over the rounds.

    Plans take turns within a round, so that a machine that gets slower or faster does so for all of them.

    Parameters
    ----------
    plans : Mapping[str, TrainingPlan]
        Name -> plan.
    graph : Graph
        What they train.
    rounds : int
        How often each plan is calibrated and run.
    iterations : int
        Of a run; the first does not count, since it includes warm-up.
    seed : int
        Seed of parameters and data.
    progress : callable, optional
        Called with a line that says what is being done.
    cores : sequence of int, optional
        For each rank its core, as `TrainingSession` takes them.
    session : TrainingSession, optional
        Processes that are up already; they stay so.

    Raises
    ------
    InputError
        On no plan, or numbers too small.
    RunError
        If a rank fails.
    """
    if not plans or rounds < 1 or iterations < 2:
        raise InputError(
            f"compare: expected plans, rounds >= 1 and iterations >= 2 (got {len(plans)}, {rounds}, {iterations})"
        )
    tell = progress or _silent
    simulated: dict[str, list[float]] = {name: [] for name in plans}
    runs: dict[str, list[TrainingRun]] = {name: [] for name in plans}
    found: dict[str, Calibration] = {}
    needed = max(sum(m.hosts * m.devices for m in plan.meshes) for plan in plans.values())
    with nullcontext(session) if session is not None else TrainingSession(needed, cores=cores) as workers:
        for turn in range(rounds):
            for name, plan in plans.items():
                tell(f"round {turn + 1} of {rounds}: {name}")
                calibrate = calibrate_slices if plan.slices else calibrate_training
                found[name] = calibrate(plan, graph, workers, seed=seed)
                simulated[name].append(simulate_training(found[name].plan).seconds)
                runs[name].append(run_training(plan, graph, seed=seed, iterations=iterations, session=workers))
    return TrainingComparison(tuple(_row(name, simulated[name], runs[name], found[name]) for name in plans))


def _silent(line: str) -> None:
    """No progress wanted."""


def _row(name: str, simulated: list[float], runs: list[TrainingRun], calibration: Calibration) -> Compared:
    """Iterations count in which ranks had their cores; if these are fewer than three, the three least disturbed."""
    every = [(own, s) for run in runs for own, s in list(zip(own_shares(run), run.seconds, strict=True))[1:]]
    every.sort(reverse=True)
    kept = [x for x in every if x[0] >= UNDISTURBED]
    if len(kept) < 3:
        kept = every[:3]
    compute, collective = sum(calibration.compute_s), sum(calibration.collective_s)
    # 1.2533 = sqrt(pi / 2): the standard error of a median of normal values, relative to that of their mean.
    scatter = 1.2533 * float(np.std([s for _, s in kept])) / math.sqrt(len(kept))
    return Compared(
        name,
        float(np.median(simulated)),
        float(np.median([s for _, s in kept])),
        float(np.mean([own for own, _ in kept])),
        len(kept),
        collective / (compute + collective),
        scatter,
    )


def own_shares(run: TrainingRun) -> list[float]:
    """For each iteration the share of its computing time, collectives left out, in which ranks had their cores."""
    shares: list[float] = []
    for ranks in run.spans:
        spans = [span for mine in ranks for span in mine if span.op in COMPUTE and not span.collective]
        cpu, wall = sum(span.cpu for span in spans), sum(span.end - span.start for span in spans)
        if not spans:  # every pass has collectives: what they waited is not to be told from what others took
            cpu = sum(span.cpu for mine in ranks for span in mine)
            wall = sum(span.end - span.start - span.collective for mine in ranks for span in mine if span.op in COMPUTE)
        shares.append(min(1.0, cpu / wall) if wall > 0 else 1.0)
    return shares


def example_plans(graph: Graph, *, global_batch: int, microbatches: int) -> dict[str, TrainingPlan]:
    """Three ways to train a graph on two devices: a pipeline, data parallel, tensor parallel."""

    def plan(meshes: list[tuple[int, int]], rule: Literal["dp", "tp"]) -> TrainingPlan:
        return hand_plan(graph, meshes=meshes, rule=rule, global_batch=global_batch, microbatches=microbatches)

    return {
        "pipeline": plan([(1, 1), (1, 1)], "dp"),
        "data parallel": plan([(2, 1)], "dp"),
        "tensor parallel": plan([(1, 2)], "tp"),
    }
