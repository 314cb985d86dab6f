"""`calibrate_training`: a training plan with the times that its stages really take on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ...errors import InputError
from ...profiles.graph import Graph
from ...simulator.training.plan import TrainingPlan
from ...simulator.training.plan_graph import check_graph
from ...simulator.training.program import Op
from .edges import mesh_ranks
from .optimizer import Optimizer
from .run import program_of, rank_names
from .session import TrainingSession

__all__ = ["Calibration", "calibrate_training", "typical"]

OWN = 0.98
"""Share of a measurement in which its thread must have had its core for it to count. What other processes take is no
property of the model; where too few measurements count, CPU time stands in."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """What was measured.

    Parameters
    ----------
    plan : TrainingPlan
        The plan with measured times in its stages and measured links in its cluster.
    compute_s, collective_s : tuple of float
        Per stage: computing of one microbatch, forward and backward; its collectives.
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

    Each stage's passes are run on every rank of its mesh, all meshes at once, with collectives left out; each
    collective of the plan is timed by itself, and messages between two ranks. A pass takes what it computes plus its
    collectives.

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
    small = graph.with_batch(plan.microbatch)
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


def typical(times: Sequence[Sequence[float]]) -> float:
    """Median of measurements (seconds, CPU seconds) that nobody else held up; median CPU time if there are too few."""
    wall, cpu = np.array(times).T
    own = cpu >= OWN * wall
    return float(np.median(wall[own]) if own.sum() >= min(3, len(own)) else np.median(cpu))


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
        found = {name: float(np.mean([typical(m["times"][name]) for m in mine])) for name in mine[0]["times"]}
        every = np.array([t for m in mine for times in m["times"].values() for t in times])
        shares.append(float(every[:, 1].sum() / every[:, 0].sum()))
        along: dict[str, float] = {}
        for phase, kind, axes, n_bytes, count in mine[0]["calls"]:
            key = stage.mesh, tuple(stage.logical), kind, tuple(axes), n_bytes
            # A collective has no CPU time to go by; the lower quartile leaves out what others held up.
            along[phase] = along.get(phase, 0.0) + count * float(np.percentile(collectives[key], 25))
        compute.append(found["forward"] + found["backward"] + found.get("weights", 0.0))
        collective.append(along.get("forward", 0.0) + along.get("backward", 0.0))
        stages.append(
            stage.model_copy(
                update={
                    "forward_s": found["forward"] + along.get("forward", 0.0),
                    "backward_input_s": found["backward"] + along.get("backward", 0.0),
                    "backward_weight_s": found.get("weights", 0.0),
                    "reduce_s": found["reduce"] + along.get("reduce", 0.0),
                    "update_s": found["update"] + along.get("update", 0.0),
                }
            )
        )
    update: dict[str, Any] = {"stages": tuple(stages), "cost_source": "measured on this machine", "overlap": True}
    transfers = answers[0]["transfers"]
    if transfers:
        link = _link(transfers)
        device = plan.cluster.device.model_copy(
            update={"name": "this-machine", "intra_node": link, "inter_node": link, "source": "measured"}
        )
        update["cluster"] = plan.cluster.model_copy(update={"device": device})
    return Calibration(plan.model_copy(update=update), tuple(compute), tuple(collective), min(shares))


def _link(transfers: list[list[Any]]) -> tuple[float, float]:
    """Bytes per second and fixed seconds of a message, from a small and a large one."""
    (small, few), (large, many) = ((n, float(np.percentile(seconds, 25))) for n, seconds in transfers)
    return (large - small) / max(many - few, 1e-9), few
