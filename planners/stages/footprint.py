"""What a device holds of every sample in flight: what the backward pass reads, or every tensor, as in FlexFlow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from ...profiles.graph import Graph, Operator, differentiable
from .tables import merged

__all__ = ["FOOTPRINTS", "Footprint", "tensor_table"]

Footprint = Literal["saved", "flexflow"]
"""Whose memory a stage has: "saved" is what the backward pass reads, as autograd keeps it, and the largest temporary;
"flexflow" is every tensor with its gradient, and nothing is used twice."""
FOOTPRINTS: tuple[Footprint, ...] = get_args(Footprint)

_IN_PLACE = ("add", "relu", "gelu")


def tensor_table(graph: Graph, units: Sequence[Sequence[int]]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
    """Which units hold each tensor, and its bytes of one sample, as FlexFlow holds them.

    FlexFlow gives every tensor a region, and in training a second one for its gradient (`map_tensor` of its
    ``model.cc``); no region is used for two tensors, and each microbatch in flight has its own. So has the thesis'
    runtime, which is built on it (§3.7). A unit that reads a tensor of another unit has a copy of it.

    A bias and a ReLU or GELU after a product write over the product's result: they are parts of FlexFlow's Linear. The
    scores, the softmax and the context of an attention are counted without gradients: FlexFlow calls cuDNN's attention,
    whose reserve holds them from the forward to the backward pass. What else that reserve has cuDNN does not say.

    Parameters
    ----------
    graph : Graph
        The model.
    units : sequence of sequence of int
        Operators of each unit.

    Returns
    -------
    table : ndarray of bool, shape (n_tensors, n_units)
    sizes : ndarray, shape (n_tensors,)
        Bytes of one sample, gradient included.
    """
    reached = differentiable(graph)
    parameters = {tensor.name for tensor in graph.parameters}
    unit_of = {i: u for u, group in enumerate(units) for i in group}
    rows: list[tuple[set[int], float]] = []
    for name in (*(t.name for t in graph.inputs), *graph.index):
        reading = [j for j, _ in graph.consumers[name]]
        at = {unit_of[j] for j in reading}
        each = graph.bytes_of(name) / graph.batch
        made = graph.index.get(name)
        if made is None:
            rows.append((at, each))
            continue
        op, home = graph.operators[made], unit_of[made]
        over = len(reading) == 1 and at == {home} and _writes_over(graph, graph.operators[reading[0]], parameters)
        if not over:
            rows.append((at | {home}, each * (2 if name in reached and not _inside(op, parameters) else 1)))
    table = np.zeros((len(rows), len(units)), bool)
    for row, (holders, _) in enumerate(rows):
        table[row, sorted(holders)] = True
    held, sizes = merged(table, np.array([[size for _, size in rows]]))
    return held, sizes[0]


def _writes_over(graph: Graph, op: Operator, parameters: set[str]) -> bool:
    """Whether an operator is the bias or the activation of a product, and leaves its result in the product's place."""
    values = [name for name in op.inputs if name not in parameters]
    if op.kind != "elementwise" or op.attributes.get("fn") not in _IN_PLACE or len(values) != 1:
        return False
    if values[0] not in graph.index:
        return False
    before = graph.operators[graph.index[values[0]]]
    return before.kind in ("contraction", "convolution") or _writes_over(graph, before, parameters)


def _inside(op: Operator, parameters: set[str]) -> bool:
    """Whether a result lives inside an attention: a softmax, or a product of two values."""
    return op.kind == "softmax" or (op.kind == "contraction" and not parameters & set(op.inputs))
