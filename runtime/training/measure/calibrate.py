"""`calibrate_training`: puts the times that a plan's stages really take on this machine into the plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ....errors import InputError
from ....profiles.graph import Graph
from ....simulator.plan.entries import ClusterEntry
from ....simulator.training.plan.file import TrainingPlan
from ....simulator.training.plan.graph import check_graph, in_plan_order
from ....simulator.training.program.actions import Op
from ..optimizer import Optimizer
from ..run import program_of, rank_names
from ..session import TrainingSession
from ..wires.edges import mesh_ranks

__all__ = ["Calibration", "calibrate_training", "measured_link", "typical"]

OWN = 0.98
"""Share of a measurement in which its thread must have had its core, or waited in a collective, for it to count: time
that other processes take says nothing about the model. The value is a guess, as `compare.plans.UNDISTURBED` is."""

MICROBATCH = ("forward", "backward", "weights")

Times = Sequence[Sequence[float]]
"""Measurements of one pass on one rank: seconds, CPU seconds, seconds in collectives."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """A plan with measured times, and what they consist of.

    Parameters
    ----------
    plan : TrainingPlan
        The plan with measured times in its stages and measured links in its cluster.
    compute_s, collective_s : tuple of float
        For each stage, seconds that one microbatch computes, forward and backward, and seconds that its collectives
        add.
    own : float
        Share of the measuring time in which ranks had their cores.
    """

    plan: TrainingPlan
    compute_s: tuple[float, ...]
    collective_s: tuple[float, ...]
    own: float


def calibrate_training(
    plan: TrainingPlan, graph: Graph, session: TrainingSession, *, repeats: int = 5, seed: int = 0,
    dtype: str = "float32",
) -> Calibration:  # fmt: skip
    """Measure a plan's stages, collectives and transfers on processes of this machine.

    Every rank of a mesh runs the passes of its stages, as Alpa profiles stages; all meshes do so at once, since cores
    share caches and memory. Where other processes disturb too many repeats of a pass, its time is put together instead:
    the CPU time of the pass without collectives, plus each of its collectives timed by itself. Messages are timed
    between two ranks.

    Parameters
    ----------
    plan : TrainingPlan
        What to measure.
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
        If the session has too few processes, or the plan cannot be run.
    RunError
        If a rank fails.
    """
    small = in_plan_order(plan, graph.with_batch(plan.microbatch))
    check_graph(plan, small)
    needed = sum(map(len, mesh_ranks(plan)))
    if session.processes < needed or repeats < 1:
        raise InputError(
            f"calibrate: expected {needed} processes and at least one repeat (got {session.processes}, {repeats})"
        )
    split = any(a.op == Op.W for mine in program_of(plan, small).actions for a in mine)
    job = {
        "kind": "measure",
        "plan": plan.to_json(),
        "graph": small.to_json(),
        "repeats": repeats,
        "seed": seed,
        "dtype": dtype,
        "split": split,
        "optimizer": asdict(Optimizer(plan.model.optimizer)),
    }
    return _put_together(plan, session.run(job, rank_names(plan))[:needed])


def typical(ranks: Sequence[Times]) -> float | None:
    """Median seconds of a pass on its slowest rank, over the undisturbed repeats; None if these are fewer than three.

    Parameters
    ----------
    ranks : sequence of sequence
        For each rank of a mesh its measurements, one for each repeat.
    """
    every = np.array([[list(t) for t in times] for times in ranks])  # rank, repeat, (wall, CPU, collective)
    wall, had = every[:, :, 0], every[:, :, 1] + every[:, :, 2]
    # Below a millisecond the thread's CPU clock is too coarse to tell whether it had its core: such repeats count.
    own = np.all(had >= OWN * wall, axis=0) | (wall.max(axis=0) < 1e-3)
    return float(np.median(wall.max(axis=0)[own])) if own.sum() >= min(3, wall.shape[1]) else None


def computing(ranks: Sequence[Times]) -> float:
    """Median CPU seconds of a pass without collectives, mean of the ranks."""
    return float(np.mean([np.median([cpu - muted for _, cpu, muted in times]) for times in ranks]))


def _put_together(plan: TrainingPlan, answers: list[dict[str, Any]]) -> Calibration:
    collectives: dict[tuple[Any, ...], list[float]] = {}
    for answer in answers:
        for mesh, logical, kind, axes, n_bytes, seconds in answer["collectives"]:
            key = mesh, tuple(logical), kind, tuple(axes), n_bytes
            collectives.setdefault(key, []).extend(seconds)
    stages: list[Any] = []
    compute, collective, shares = list[float](), list[float](), list[float]()
    for number, stage in enumerate(plan.stages):
        mine = [a["stages"][str(number)] for a in answers if str(number) in a["stages"]]
        along: dict[str, float] = {}
        for phase, kind, axes, n_bytes, count in mine[0]["calls"]:
            key = stage.mesh, tuple(stage.logical), kind, tuple(axes), n_bytes
            # A waiting collective uses no CPU time by which disturbed repeats could be told. Disturbances only make it
            # longer, so the lower quartile leaves most of them out.
            along[phase] = along.get(phase, 0.0) + count * float(np.percentile(collectives[key], 25))
        found, alone = dict[str, float](), dict[str, float]()
        for name in mine[0]["times"]:
            alone[name] = computing([m["muted"][name] for m in mine])
            whole = typical([m["times"][name] for m in mine])
            found[name] = alone[name] + along.get(name, 0.0) if whole is None else whole
        every = np.array([t for m in mine for times in m["times"].values() for t in times])
        # The two clocks are read one after the other, so that CPU seconds may be a little more than seconds.
        shares.append(float(min(1.0, every[:, 1:].sum() / every[:, 0].sum())))
        compute.append(sum(alone[name] for name in MICROBATCH if name in alone))
        collective.append(max(0.0, sum(found[name] for name in MICROBATCH if name in found) - compute[-1]))
        stages.append(
            stage.model_copy(
                update={
                    "forward_s": found["forward"],
                    "backward_input_s": found["backward"],
                    "backward_weight_s": found.get("weights", 0.0),
                    "reduce_s": found["reduce"],
                    "update_s": found["update"],
                }
            )
        )
    update: dict[str, Any] = {"stages": tuple(stages), "cost_source": "measured on this machine", "overlap": True}
    transfers = answers[0]["transfers"]
    if transfers:
        update["cluster"] = measured_link(plan.cluster, transfers)
        update["further_clusters"] = tuple(measured_link(each, transfers) for each in plan.further_clusters)
    return Calibration(plan.model_copy(update=update), tuple(compute), tuple(collective), min(shares))


def measured_link(cluster: ClusterEntry, transfers: list[list[Any]]) -> ClusterEntry:
    """A plan's cluster with the bandwidth and latency of messages measured between ranks."""
    link = _link(transfers)
    device = cluster.device.model_copy(
        update={"name": "this-machine", "intra_node": link, "inter_node": link, "source": "measured"}
    )
    return cluster.model_copy(update={"device": device})


def _link(transfers: list[list[Any]]) -> tuple[float, float]:
    """Bytes per second and fixed seconds of a message, from times of a small and a large one."""
    # Lower quartiles, as for collectives; noise could make the large message the faster one.
    (small, few), (large, many) = ((n, float(np.percentile(seconds, 25))) for n, seconds in transfers)
    return (large - small) / max(many - few, 1e-9), few
