"""Bytes that training keeps: of a parameter, and of what an operator saves for its backward pass."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from ...errors import InputError
from .costs.shapes import local
from .graph import Graph
from .operator import DTYPE_BYTES, Operator

__all__ = ["OPTIMIZERS", "factored_values", "parameter_bytes", "saved", "saved_bytes", "state_bytes"]

OPTIMIZERS: Mapping[str, int] = {"adam": 2, "sgd": 0, "momentum": 1, "adafactor": 0}
"""Optimiser -> values that it keeps of every element, in float32 at least. SGD is without momentum, "momentum" is SGD
with it; Adafactor's factored second moments (`factored_values`) come on top."""


def factored_values(shape: tuple[int, ...]) -> int:
    """Values of Adafactor's second moments (Shazeer & Stern 2018, Alg. 4; no first moment).

    The last two dimensions are a matrix with one value per row and one per column, those before them count matrices;
    a vector has a value per element.
    """
    if len(shape) < 2:
        return math.prod(shape)
    return math.prod(shape[:-2]) * (shape[-2] + shape[-1])


def parameter_bytes(
    dtype: str, optimizer: str = "adam", shape: tuple[int, ...] | None = None
) -> tuple[int, int, float]:
    """Bytes of the weight, the gradient and the optimiser state of one parameter.

    Half precision keeps a float32 master copy beside the moments: Adam 2 + 2 + 12; float32 has none: 4 + 4 + 8.
    Both are 16 bytes a parameter. SGD with momentum: 2 + 2 + 8 and 4 + 4 + 4.

    Parameters
    ----------
    dtype, optimizer : str
        Type of the parameter; name of the optimiser, one of `OPTIMIZERS`.
    shape : tuple of int, optional
        Shape of the parameter, or of a device's shard of it: Adafactor's factored state is counted exactly, as its
        share of an element. Without a shape it is left out, as next to nothing of a large matrix.

    Raises
    ------
    InputError
        If the type is not a floating-point one, or the optimiser is unknown.
    """
    if optimizer not in OPTIMIZERS:
        raise InputError(f"optimizer: unknown {optimizer!r}; known: {', '.join(OPTIMIZERS)}")
    if dtype not in ("float16", "bfloat16", "float32", "float64"):
        raise InputError(f"parameter dtype: expected a floating-point type (got {dtype!r})")
    size = DTYPE_BYTES[dtype]
    # Moments are kept in float32 at least: in half precision their small updates would be lost.
    value = max(4, size)
    state = (4 if size == 2 else 0) + OPTIMIZERS[optimizer] * value
    if optimizer == "adafactor" and shape is not None:
        return size, size, state + value * factored_values(shape) / math.prod(shape)
    return size, size, state


def state_bytes(graph: Graph, optimizer: str = "adam") -> int:
    """Bytes of weights, gradients and optimiser state of a whole model.

    Frozen parameters have weights only, and so have all of a graph of inference.
    """
    total = 0
    for tensor in graph.parameters:
        if not tensor.trainable or graph.inference:
            total += tensor.bytes
            continue
        total += round(tensor.elements * sum(parameter_bytes(tensor.dtype, optimizer, tensor.shape)))
    return total


def saved(graph: Graph, operators: range) -> Iterator[str]:
    """Names of the values that a range of operators keeps for its backward pass, each once; parameters are not kept."""
    seen: set[str] = set()
    parameters = {tensor.name for tensor in graph.parameters}
    for i in operators:
        op = graph.operators[i]
        for position in op.saves:
            name = op.name if position < 0 else op.inputs[position]
            if name not in seen and name not in parameters:
                seen.add(name)
                yield name


def saved_bytes(op: Operator, parts: Mapping[str, int]) -> dict[str, float]:
    """Bytes on one device of each value that an operator saves, by name; unlike in `saved`, weights are among them."""
    on = local(op, parts)
    return {(op.name if k < 0 else op.inputs[k]): (on.result_bytes if k < 0 else on.operand_bytes[k]) for k in op.saves}
