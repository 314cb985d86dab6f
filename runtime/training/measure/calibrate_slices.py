"""`calibrate_slices`: puts the times that a plan's token slices really take on this machine into the plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from ....errors import InputError
from ....profiles.graph import Graph
from ....simulator.training.plan.file import TrainingPlan
from ....simulator.training.plan.graph import check_graph
from ..optimizer import Optimizer
from ..result import TrainingRun
from ..run import rank_names
from ..session import TrainingSession
from ..slices.job import check_sliced
from ..slices.turns import turns_of
from ..wires.edges import mesh_ranks
from .calibrate import Calibration, Times, measured_link, typical

__all__ = ["calibrate_slices", "slice_seconds", "with_slice_times"]


def calibrate_slices(
    plan: TrainingPlan, graph: Graph, session: TrainingSession, *, repeats: int = 5, seed: int = 0,
    dtype: str = "float32",
) -> Calibration:  # fmt: skip
    """Measure the slices of a plan's stages and its messages on processes of this machine.

    For each entry of `plan.slices`, the slices of one microbatch are run as the program runs them: forward from first
    to last, backward from last to first. All meshes run at once.

    Parameters
    ----------
    plan : TrainingPlan
        What to measure; it has slices.
    graph : Graph
        What was planned.
    session : TrainingSession
        Processes, as many as the plan has devices.
    repeats : int
        How often each pass is timed.
    seed, dtype
        As in `run_training`.

    Raises
    ------
    InputError
        If the session has too few processes, or the plan cannot be run or has no slices.
    RunError
        If a rank fails.
    """
    small = graph.with_batch(plan.microbatch)
    check_graph(plan, small)
    if not plan.slices:
        raise InputError("calibrate: the plan has no token slices; calibrate_training measures it")
    check_sliced(plan, small)
    needed = sum(map(len, mesh_ranks(plan)))
    if session.processes < needed or repeats < 1:
        raise InputError(
            f"calibrate: expected {needed} processes and at least one repeat (got {session.processes}, {repeats})"
        )
    job = {
        "kind": "measure_sliced", "plan": plan.to_json(), "graph": small.to_json(), "repeats": repeats, "seed": seed,
        "dtype": dtype, "optimizer": asdict(Optimizer(plan.model.optimizer)),
    }  # fmt: skip
    answers = session.run(job, rank_names(plan))[:needed]
    stages: list[Any] = []
    compute, collective, shares = list[float](), list[float](), list[float]()
    for number in range(len(plan.stages)):
        mine = [a["stages"][str(number)] for a in answers if str(number) in a["stages"]]
        forward, backward = (
            tuple(
                tuple(_seconds([m[way][e][j] for m in mine]) for j in range(len(entry.tokens)))
                for e, entry in enumerate(plan.slices)
            )
            for way in ("forward", "backward")
        )
        every = np.array([t for m in mine for t in _flat(m)])
        shares.append(float(min(1.0, every[:, 1:].sum() / every[:, 0].sum())))
        once = {name: _seconds([m[name[:-2]] for m in mine]) for name in ("reduce_s", "update_s")}
        stage = with_slice_times(plan, number, forward, backward).model_copy(update=once)
        # Each entry was run once, however many microbatches it stands for; the stage's times are of an average one.
        whole = stage.forward_s + stage.backward_input_s
        share = whole / (sum(map(sum, forward)) + sum(map(sum, backward)))
        collective.append(float(every[:, 2].sum() / len(mine) / repeats) * share)
        compute.append(whole - collective[-1])
        stages.append(stage)
    update: dict[str, Any] = {"stages": tuple(stages), "cost_source": "measured on this machine", "overlap": True}
    transfers = answers[0]["transfers"]
    if transfers:
        update["cluster"] = measured_link(plan.cluster, transfers)
    return Calibration(plan.model_copy(update=update), tuple(compute), tuple(collective), min(shares))


def with_slice_times(
    plan: TrainingPlan, number: int, forward: Sequence[Sequence[float]], backward: Sequence[Sequence[float]]
) -> Any:
    """A copy of a stage with the seconds of its slices, and with those of an average microbatch."""
    counts = [entry.count for entry in plan.slices]

    def mean(times: Sequence[Sequence[float]]) -> float:
        return sum(n * sum(t) for n, t in zip(counts, times, strict=True)) / sum(counts)

    return plan.stages[number].model_copy(
        update={
            "slice_forward_s": tuple(tuple(t) for t in forward),
            "slice_backward_s": tuple(tuple(t) for t in backward),
            "forward_s": mean(forward),
            "backward_input_s": mean(backward),
            "backward_weight_s": 0.0,
        }
    )


def slice_seconds(plan: TrainingPlan, run: TrainingRun, stage: int, op: str) -> tuple[tuple[float, ...], ...]:
    """Median seconds of a stage's passes in a run, for each entry of `plan.slices` and each of the entry's slices.

    The first iteration includes warm-up and does not count, unless it is the only one.
    """
    entry_of = {t.microbatch: t.entry for t in turns_of(plan)}
    found: dict[tuple[int, int], list[float]] = {}
    for iteration in run.spans[1:] or run.spans:
        for span in (span for rank in iteration for span in rank if span.stage == stage and span.op == op):
            found.setdefault((entry_of[span.microbatch], span.slice), []).append(span.end - span.start)
    return tuple(
        tuple(float(np.median(found[e, j])) for j in range(len(entry.tokens))) for e, entry in enumerate(plan.slices)
    )


def _seconds(ranks: Sequence[Times]) -> float:
    """Median seconds of a pass on its slowest rank; where too many repeats were disturbed, the time it had its core."""
    found = typical(ranks)
    if found is not None:
        return found
    return max(float(np.median([cpu + within for _, cpu, within in times])) for times in ranks)


def _flat(stage: dict[str, Any]) -> list[list[float]]:
    slices = [t for way in ("forward", "backward") for entry in stage[way] for times in entry for t in times]
    return [*slices, *stage["reduce"], *stage["update"]]
