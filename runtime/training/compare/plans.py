"""`compare_training`: runs plans and holds the measured iteration times against the simulated ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Literal

import numpy as np

from ....errors import InputError
from ....profiles.graph import Graph
from ....simulator.training.plan.file import TrainingPlan
from ....simulator.training.plan.graph import in_plan_order
from ....simulator.training.program.actions import Program
from ....simulator.training.simulate import simulate_training
from ....simulator.training.varying.iterations import Repeats, simulate_iterations
from ..hand_plan import hand_plan
from ..measure.calibrate import Calibration, calibrate_training
from ..measure.calibrate_slices import calibrate_slices
from ..measure.cores import counted, own_shares
from ..measure.service import with_service
from ..result import TrainingRun
from ..run import program_of, run_training
from ..session import TrainingSession
from .table import PROBABILITY, Compared, TrainingComparison
from .turns import by_turns

__all__ = ["compare_measured", "compare_training", "example_plans", "held_against"]

DRAWS = 200
"""Runs that are drawn for an interval: its ends are then the fifth lowest and highest."""


def compare_training(
    plans: Mapping[str, TrainingPlan],
    graph: Graph,
    *,
    rounds: int = 6,
    iterations: int = 9,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
    cores: Sequence[int] | None = None,
    session: TrainingSession | None = None,
) -> TrainingComparison:
    """Measure, simulate and run plans; compare the means of the iterations that count, of all rounds.

    In every round each plan is measured by itself (`calibrate_training`), and run. Of two neighbouring iterations of a
    run one tells what stages take in service (`with_service`), and the other is compared (`by_turns`): what is
    simulated never rests on the iterations that it is held against, and a machine that gets slower or faster from one
    quarter of a minute to the next does so for both. Plans take turns within a round.

    Parameters
    ----------
    plans : Mapping[str, TrainingPlan]
        Name -> plan.
    graph : Graph
        What they train.
    rounds : int
        How often each plan is measured and run.
    iterations : int
        Of each kind in a run; the first is both's and does not count, since it includes warm-up.
    seed : int
        Seed of parameters, data and draws.
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
    _check(plans, rounds, iterations)
    tell = progress or _silent
    alone: dict[str, list[float]] = {name: [] for name in plans}
    runs: dict[str, list[TrainingRun]] = {name: [] for name in plans}
    found: dict[str, Calibration] = {}
    with nullcontext(session) if session is not None else TrainingSession(_ranks(plans), cores=cores) as workers:
        for turn in range(rounds):
            for name, plan in plans.items():
                tell(f"round {turn + 1} of {rounds}: {name}")
                calibrate = calibrate_slices if plan.slices else calibrate_training
                found[name] = calibrate(plan, graph, workers, seed=seed)
                alone[name].append(simulate_training(found[name].plan).seconds)
                runs[name].append(run_training(plan, graph, seed=seed, iterations=2 * iterations - 1, session=workers))
    rows: list[Compared] = []
    for name in plans:
        told, judged = by_turns(runs[name])
        measured = with_service(found[name].plan, _program(plans[name], graph), told, by_turns=True)
        compute, collective = sum(found[name].compute_s), sum(found[name].collective_s)
        share = collective / (compute + collective)
        row = held_against(name, measured, graph, judged, seed)
        rows.append(replace(row, alone_s=float(np.median(alone[name])), collective=share))
    return TrainingComparison(tuple(rows))


def compare_measured(
    plans: Mapping[str, TrainingPlan],
    graphs: Mapping[str, Graph],
    *,
    rounds: int = 6,
    iterations: int = 4,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> TrainingComparison:
    """Run plans that were measured before (``meshwright measure``), and hold the runs against their simulations.

    Parameters
    ----------
    plans : Mapping[str, TrainingPlan]
        Name -> plan with times in service.
    graphs : Mapping[str, Graph]
        Name -> what it trains.
    rounds, iterations, seed, progress
        As in `compare_training`.

    Raises
    ------
    InputError
        On no plan, one that was not measured, or numbers too small.
    RunError
        If a rank fails.
    """
    _check(plans, rounds, iterations)
    bare = next((name for name, plan in plans.items() if plan.service is None), None)
    if bare is not None:
        raise InputError(f"compare: {bare} was not measured in service; meshwright measure {bare} --out measured.json")
    tell = progress or _silent
    runs: dict[str, list[TrainingRun]] = {name: [] for name in plans}
    with TrainingSession(_ranks(plans)) as workers:
        for turn in range(rounds):
            for name, plan in plans.items():
                tell(f"round {turn + 1} of {rounds}: {name}")
                graph = graphs[name]
                runs[name].append(run_training(plan, graph, seed=seed, iterations=iterations, session=workers))
    return TrainingComparison(
        tuple(held_against(name, plan, graphs[name], runs[name], seed) for name, plan in plans.items())
    )


def _check(plans: Mapping[str, TrainingPlan], rounds: int, iterations: int) -> None:
    if not plans or rounds < 1 or iterations < 2:
        raise InputError(
            f"compare: expected plans, rounds >= 1 and iterations >= 2 (got {len(plans)}, {rounds}, {iterations})"
        )


def _ranks(plans: Mapping[str, TrainingPlan]) -> int:
    return max(sum(m.hosts * m.devices for m in plan.meshes) for plan in plans.values())


def _silent(line: str) -> None:
    """No progress wanted."""


def _program(plan: TrainingPlan, graph: Graph) -> Program:
    return program_of(plan, in_plan_order(plan, graph.with_batch(plan.microbatch)))


def held_against(
    name: str, measured: TrainingPlan, graph: Graph, runs: Sequence[TrainingRun], seed: int = 0
) -> Compared:
    """Runs beside what is simulated with a plan that was measured in service.

    Parameters
    ----------
    name : str
        Of the plan.
    measured : TrainingPlan
        The plan with its times in service.
    graph : Graph
        What it trains.
    runs : sequence of TrainingRun
        Runs, between which other work may lie.
    seed : int
        Seed of the draws.
    """
    kept = counted(runs)
    repeats = Repeats(max(1, round(len(kept) / len(runs))), stretches=len(runs), draws=DRAWS, seed=seed)
    drawn = simulate_iterations(measured, repeats=repeats)
    again = simulate_training(with_service(measured, _program(measured, graph), runs)).seconds
    shares = [own_shares(run) for run in runs]
    return Compared(
        name,
        drawn.expected_s(),
        drawn.interval_s(PROBABILITY),
        # The mean, as stages' times are means: a median of few iterations differs from it by several per cent, which
        # would be put down to the model.
        float(np.mean([runs[r].seconds[i] for r, i in kept])),
        drawn.steady_s,
        again,
        float(np.mean([shares[r][i] for r, i in kept])),
        len(kept),
    )


def example_plans(graph: Graph, *, global_batch: int, microbatches: int) -> dict[str, TrainingPlan]:
    """Three ways to train a graph on two devices: a pipeline, data parallel, tensor parallel."""

    def plan(meshes: list[tuple[int, int]], rule: Literal["dp", "tp"]) -> TrainingPlan:
        return hand_plan(graph, meshes=meshes, rule=rule, global_batch=global_batch, microbatches=microbatches)

    return {
        "pipeline": plan([(1, 1), (1, 1)], "dp"),
        "data parallel": plan([(2, 1)], "dp"),
        "tensor parallel": plan([(1, 2)], "tp"),
    }
