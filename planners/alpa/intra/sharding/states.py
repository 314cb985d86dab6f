"""Optimiser states on one device, and the sums over devices that a step on shards needs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .....profiles.graph import DTYPE_BYTES, Tensor, parameter_bytes
from .....simulator.mesh import LogicalMesh
from ...solver.problem import Floats
from .specs import ShardingSpec, SpecSet

__all__ = ["StepSum", "local_states", "step_seconds", "step_sums"]


@dataclass(frozen=True, slots=True)
class StepSum:
    """An all-reduce of an optimiser's step.

    Parameters
    ----------
    axes : tuple of int
        Mesh axes over which it sums.
    n_bytes : float
        Bytes on each device.
    """

    axes: tuple[int, ...]
    n_bytes: float


def local_states(tensor: Tensor, specs: SpecSet, optimizer: str) -> Floats:
    """Bytes of a parameter's optimiser state on one device, per spec of the state.

    Adafactor's row values are cut as the rows are and repeated along the axes that cut columns, and vice versa.
    """
    if optimizer != "adafactor":
        return tensor.elements * parameter_bytes(tensor.dtype, optimizer)[2] * specs.share
    shapes = [spec.local_shape(tensor.shape, specs.mesh) for spec in specs.specs]
    return np.array([math.prod(shape) * parameter_bytes(tensor.dtype, optimizer, shape)[2] for shape in shapes])


def step_sums(tensor: Tensor, spec: ShardingSpec, mesh: LogicalMesh, optimizer: str) -> list[StepSum]:
    """All-reduces of one step of a parameter whose state is cut so; only Adafactor has any.

    Squared gradients summed over the columns; over the rows, together with the row values; the squares of weight and
    update.
    """
    if optimizer != "adafactor":
        return []
    item = max(4, DTYPE_BYTES[tensor.dtype])
    live = tuple(tuple(a for a in axes if mesh.shape[a] > 1) for axes in spec.dims)
    found: list[StepSum] = []
    if len(tensor.shape) > 1:
        *stacked, rows, columns = spec.local_shape(tensor.shape, mesh.shape)
        count = math.prod(stacked)
        found = [StepSum(live[-1], item * count * rows), StepSum(live[-2], item * count * (columns + 1))]
    found.append(StepSum(tuple(sorted(a for axes in live for a in axes)), 2 * item))
    return [x for x in found if x.axes]


def step_seconds(tensor: Tensor, specs: SpecSet, mesh: LogicalMesh, optimizer: str) -> Floats:
    """Seconds of `step_sums`, per spec of the state."""
    if optimizer != "adafactor":
        return np.zeros(len(specs.specs))
    return np.array(
        [
            sum(mesh.seconds("all_reduce", x.n_bytes, x.axes) for x in step_sums(tensor, spec, mesh, optimizer))
            for spec in specs.specs
        ]
    )
