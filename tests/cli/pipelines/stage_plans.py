"""Plans by hand: a graph of stages (two branches of two that meet in a fifth, one device each), and token slices."""

from __future__ import annotations

from typing import Any

from meshwright.simulator import Cluster
from meshwright.simulator.serving.plan.file import PlannerEntry
from meshwright.simulator.training.plan.file import (
    MeshEntry,
    ModelEntry,
    SliceEntry,
    StageEntry,
    TrainingPlan,
    TransferEntry,
)

EDGES = ((0, 1), (2, 3), (1, 4), (3, 4))


def stage(s: int, **changes: Any) -> StageEntry:
    said: dict[str, Any] = {
        "mesh": s, "logical": (1, 1), "first": 2 * s, "last": 2 * s + 2, "forward_s": 0.010, "backward_input_s": 0.020,
        "state_bytes": 1e9, "activation_bytes": 1e8, "flops": 1e12,
    } | changes  # fmt: skip
    return StageEntry(**said)


def branched_plan(*of_stages: dict[str, Any], **changes: Any) -> TrainingPlan:
    """Eight microbatches of four; `of_stages` changes the stages one by one, `changes` the plan."""
    more = [*of_stages, *({} for _ in range(5 - len(of_stages)))]
    said: dict[str, Any] = {
        "model": ModelEntry(name="toy"), "global_batch": 32, "microbatches": 8, "schedule": "1f1b",
        "meshes": tuple(MeshEntry(hosts=1, devices=1, first_device=s) for s in range(5)),
        "stages": tuple(stage(s, **more[s]) for s in range(5)),
        "transfers": tuple(TransferEntry(source=a, target=b, value=f"x{a}", bytes=4e6) for a, b in EDGES),
        "planner": PlannerEntry(name="hand"),
    } | changes  # fmt: skip
    return TrainingPlan.of(Cluster(1, 8), **said)


def sliced_plan(**changes: Any) -> TrainingPlan:
    """Eight microbatches of four, each cut into token slices of 48 and 16, through a chain of two stages (TeraPipe)."""
    slices = {"slice_forward_s": ((0.006, 0.004),), "slice_backward_s": ((0.012, 0.008),)}
    said: dict[str, Any] = {
        "schedule": "terapipe", "slices": (SliceEntry(samples=4, tokens=(48, 16), count=8),),
        "meshes": tuple(MeshEntry(hosts=1, devices=1, first_device=s) for s in range(2)),
        "stages": tuple(stage(s, **slices) for s in range(2)),
        "transfers": (TransferEntry(source=0, target=1, value="x0", bytes=4e6),),
    } | changes  # fmt: skip
    return branched_plan(**said)
