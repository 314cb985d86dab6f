"""Plans for graphs of the zoo by rule: samples over axis 0, and over axis 1 one loop of every operator that has it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from meshwright.profiles.graph import Graph, Operator
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

TENSOR = ("n", "f", "v")
"""Loops that Megatron's tensor parallelism cuts: heads, MLP width, vocabulary."""


def spec(dims: Sequence[Sequence[str]], axes: tuple[str, str]) -> str:
    """The sharding spec of a tensor when each mesh axis cuts the loop of its name."""
    return "".join(
        "S" + cut if (cut := "".join(str(a) for a in (0, 1) if axes[a] and group and axes[a] == group[0])) else "R"
        for group in dims
    )


def entry(operator: Operator, tensor: Sequence[str], logical: tuple[int, int]) -> OperatorEntry:
    loops = {x.name for x in operator.loops}
    batch = next((x.name for x in operator.loops if x.batch), "") if logical[0] > 1 else ""
    cut = next((x for x in tensor if x in loops), "") if logical[1] > 1 else ""
    axes = (batch, cut)
    return OperatorEntry(
        axes=axes,
        result=spec(operator.parsed.result, axes),
        operands=tuple(spec(dims, axes) for dims in operator.parsed.operands),
    )


def stage_entry(
    graph: Graph, first: int, last: int, mesh: int, logical: tuple[int, int], tensor: Sequence[str] = TENSOR,
    **more: Any,
) -> StageEntry:  # fmt: skip
    operators = {op.name: entry(op, tensor, logical) for op in graph.operators[first:last]}
    parameters: dict[str, str] = {}
    for op in graph.operators[first:last]:
        for name, operand in zip(op.inputs, operators[op.name].operands, strict=True):
            if any(t.name == name for t in graph.parameters):
                parameters.setdefault(name, operand)
    said: dict[str, Any] = {
        "forward_s": 1e-3, "backward_input_s": 2e-3, "state_bytes": 1e6, "activation_bytes": 1e5,
        "operators": operators, "parameters": parameters,
    }  # fmt: skip
    return StageEntry(mesh=mesh, logical=logical, first=first, last=last, **said | more)


def cuts_at(graph: Graph, layers: Sequence[int]) -> list[tuple[int, int]]:
    """Operators of stages that hold so many layers each; what is before and after them goes to the ends."""
    bounds, done = [0], 0
    for count in layers[:-1]:
        done += count
        bounds.append(next(i for i, op in enumerate(graph.operators) if op.layer == done))
    bounds.append(len(graph.operators))
    return list(itertools.pairwise(bounds))


def sharded_plan(
    graph: Graph, layers: Sequence[int], logical: tuple[int, int], *, meshes: int | None = None,
    global_batch: int = 16, microbatches: int = 4, tensor: Sequence[str] = TENSOR, stages: Any = None,
    device: str = "cpu-core", **changes: Any,
) -> TrainingPlan:  # fmt: skip
    """Stages of so many layers, on meshes of one view, in turn."""
    n = meshes or len(layers)
    size = logical[0] * logical[1]
    sized = graph.with_batch(global_batch // microbatches)
    made = [
        stage_entry(sized, first, last, s % n, logical, tensor)
        for s, (first, last) in enumerate(cuts_at(sized, layers))
    ]
    crossing: list[TransferEntry] = []
    for t, stage in enumerate(made):
        for name in dict.fromkeys(x for op in sized.operators[stage.first : stage.last] for x in op.inputs):
            at = sized.index.get(name, stage.first)
            s = next((s for s, one in enumerate(made) if one.first <= at < one.last), t)
            if s != t and name in sized.index:
                crossing.append(
                    TransferEntry(
                        source=s, target=t, value=name, bytes=sized.bytes_of(name),
                        source_spec=made[s].operators[name].result,
                        target_spec=next(
                            e.operands[op.inputs.index(name)]
                            for op in sized.operators[stage.first : stage.last]
                            if name in op.inputs and (e := stage.operators[op.name])
                        ),
                    )
                )  # fmt: skip
    for name in dict.fromkeys(x for stage in made for x in stage.parameters):  # tied: gradients are exchanged
        first, *others = [s for s, stage in enumerate(made) if name in stage.parameters]
        for s in others:
            a, b = made[first].parameters[name], made[s].parameters[name]
            crossing.append(
                TransferEntry(
                    source=first, target=s, value=name, bytes=sized.bytes_of(name), source_spec=a, target_spec=b
                )
            )
    said: dict[str, Any] = {
        "model": ModelEntry(name=graph.name, digest=graph.digest, dtype=graph.parameters[0].dtype),
        "global_batch": global_batch,
        "microbatches": microbatches,
        "meshes": tuple(MeshEntry(hosts=1, devices=size, first_device=m * size) for m in range(n)),
        "stages": tuple(made),
        "transfers": tuple(crossing),
        "planner": PlannerEntry(name="hand"),
    } | changes
    if stages is not None:
        said["stages"] = tuple(stages(made))
    return TrainingPlan.of(Cluster(1, n * size, device), **said)
