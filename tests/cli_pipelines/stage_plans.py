"""A plan of a stage graph by hand: two branches of two stages each that meet in a fifth, one device a stage."""

from __future__ import annotations

from typing import Any

from meshwright.simulator import Cluster
from meshwright.simulator.plan import PlannerEntry
from meshwright.simulator.training.plan import MeshEntry, ModelEntry, StageEntry, TrainingPlan, TransferEntry

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
