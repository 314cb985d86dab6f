"""A training plan by hand: eight equal layers on two meshes of 2 x 2, Megatron's sharding in every one."""

from __future__ import annotations

from typing import Any

from meshwright.simulator import Cluster
from meshwright.simulator.serving.plan.file import PlannerEntry
from meshwright.simulator.training.plan.file import (
    MeshEntry,
    ModelEntry,
    OperatorEntry,
    StageEntry,
    TrainingPlan,
    TransferEntry,
)

COLUMN, ROW, WHOLE = "RS1", "S1R", "S0RR"


def run(axes: tuple[str, str], result: str, *operands: str) -> OperatorEntry:
    return OperatorEntry(axes=axes, result=result, operands=operands)


def layer(i: int) -> tuple[dict[str, OperatorEntry], dict[str, str]]:
    operators = {
        f"h.{i}.qkv": run(("b", "n"), "S0RS1R", WHOLE, COLUMN),
        f"h.{i}.out": run(("b", "n"), WHOLE, "S0RS1R", ROW),
        f"h.{i}.up": run(("b", "f"), "S0RS1", WHOLE, COLUMN),
        f"h.{i}.down": run(("b", "f"), WHOLE, "S0RS1", ROW),
    }
    return operators, {f"{name}.weight": entry.operands[1] for name, entry in operators.items()}


def hand_plan(**changes: Any) -> TrainingPlan:
    stages: list[StageEntry] = []
    first = 0
    for s in range(2):
        operators = {"embed": run(("b", ""), WHOLE, "S0R", "RR")} if s == 0 else {}
        parameters = {"embed.weight": "RR"} if s == 0 else {}
        for i in range(4 * s, 4 * s + 4):
            more, kept = layer(i)
            operators |= more
            parameters |= kept
        if s == 1:
            operators |= {"head": run(("b", "v"), "S0RS1", WHOLE, COLUMN), "loss": run(("b", "v"), "", "S0RS1", "S0R")}
            parameters |= {"head.weight": COLUMN}
        stages.append(
            StageEntry(
                mesh=s, logical=(2, 2), first=first, last=first + len(operators), forward_s=0.01 * (s + 1),
                backward_input_s=0.02 * (s + 1), reduce_s=0.003, update_s=0.001, state_bytes=5e9,
                activation_bytes=1e9, work_bytes=1e8, operators=operators, parameters=parameters,
            )
        )  # fmt: skip
        first += len(operators)
    said: dict[str, Any] = {
        "model": ModelEntry(name="toy"),
        "global_batch": 64,
        "microbatches": 8,
        "meshes": (MeshEntry(hosts=1, devices=4), MeshEntry(hosts=1, devices=4, first_device=4)),
        "stages": tuple(stages),
        "transfers": (TransferEntry(source=0, target=1, value="h.3.down", bytes=1e6),),
        "planner": PlannerEntry(name="hand"),
    } | changes
    return TrainingPlan.of(Cluster(1, 8), **said)
