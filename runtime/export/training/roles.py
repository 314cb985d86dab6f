"""What each axis of a stage's mesh does to an operator: samples, columns, rows, heads, experts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from ....profiles.graph import Graph, Operator
from ....simulator.training.plan.file import StageEntry

__all__ = ["Role", "axis_roles", "heavy_operators", "role"]

Role = Literal["batch", "column", "row", "head", "expert", "other", "repeats"]
"""``batch``: cuts the samples. ``column``, ``row``: cuts the outputs or the inputs of a weight. ``head``: cuts what is
independent in attention. ``expert``: cuts a loop that weight, input and result share. ``repeats``: the axis repeats
the work. ``other``: anything else, such as the sequence."""


def role(graph: Graph, operator: Operator, loop: str) -> Role:
    """What cutting a loop of an operator over devices means."""
    if not loop:
        return "repeats"
    if operator.loop(loop).batch:
        return "batch"
    parsed = operator.parsed
    if operator.kind == "dispatch":  # the mask's loops: experts and places in their queues
        return "expert" if any(loop in group for group in parsed.operands[0]) else "other"
    weights = [
        dims
        for dims, name in zip(parsed.operands, operator.inputs, strict=True)
        if name in graph.tensors and not graph.tensors[name].batch_dims
    ]
    reads = [dims for dims in parsed.operands if dims not in weights]
    in_weight = any(loop in group for dims in weights for group in dims)
    in_reads = any(loop in group for dims in reads for group in dims)
    in_result = any(loop in group for group in parsed.result)
    if in_weight and in_result:
        return "expert" if in_reads else "column"
    if in_weight:
        return "row"
    everywhere = all(any(loop in group for group in dims) for dims in (*parsed.operands, parsed.result))
    return "head" if everywhere and not weights else "other"


def heavy_operators(graph: Graph, stage: StageEntry) -> Iterator[Operator]:
    """The heavy operators of a stage, in order, as far as the plan says how they are run."""
    for operator in graph.operators[stage.first : stage.last]:
        if operator.heavy and operator.name in stage.operators:
            yield operator


def axis_roles(graph: Graph, stage: StageEntry, operator: Operator) -> dict[int, Role]:
    """Axis of the logical mesh -> what it does to the operator; axes of one device do nothing."""
    axes = stage.operators[operator.name].axes
    return {axis: role(graph, operator, axes[axis]) for axis in (0, 1) if stage.logical[axis] > 1}
