"""Training FLOPs of each operator: forward and both halves of its backward pass."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ....profiles.graph import Graph, differentiable

__all__ = ["has_gradient", "training_flops"]


def has_gradient(graph: Graph) -> dict[str, bool]:
    """Name of an operator, parameter or input -> whether a gradient reaches it."""
    reached = differentiable(graph)
    return {x.name: x.name in reached for x in (*graph.parameters, *graph.inputs, *graph.operators)}


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
