"""Training FLOPs of each operator: forward and both halves of its backward pass."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ....profiles.graph import Graph

__all__ = ["has_gradient", "training_flops"]

_FLOATS = frozenset({"float64", "float32", "bfloat16", "float16"})


def has_gradient(graph: Graph) -> dict[str, bool]:
    """Name of an operator, parameter or input -> whether a gradient reaches it."""
    found = {t.name: t.trainable for t in graph.parameters} | {t.name: False for t in graph.inputs}
    for op in graph.operators:
        found[op.name] = op.dtype in _FLOATS and any(found[name] for name in op.inputs)
    return found


def training_flops(graph: Graph) -> npt.NDArray[np.float64]:
    """Forward and backward FLOPs of one microbatch.

    A sum of products costs as much again for the gradient of each operand: three times forward where both operands
    have one, twice where one is data (the first layer). Other operators are taken twice. Operators that no parameter
    reaches have no backward pass.

    Parameters
    ----------
    graph : Graph
        The model.

    Returns
    -------
    ndarray of float64, shape (K,)
        FLOPs of each operator.
    """
    reached = has_gradient(graph)
    flops = np.zeros(len(graph.operators))
    for k, op in enumerate(graph.operators):
        needed = [reached[name] for name in op.inputs]
        if not reached[op.name]:
            flops[k] = op.flops
        elif op.heavy and op.inputs:
            flops[k] = op.flops * (1.0 + 2.0 * sum(needed) / len(needed))
        else:
            flops[k] = 2.0 * op.flops
    return flops
