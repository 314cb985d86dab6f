"""Options that say what the batch may be mapped to: `IntraOptions.force_batch` and `IntraOptions.data_parallel`."""

from __future__ import annotations

import math

from ....errors import InputError
from ....profiles.graph import Operator
from ....simulator.mesh import LogicalMesh
from .algorithms import Algorithm, derive
from .analysis import Analysis

__all__ = ["batch_forced", "weights_cut"]


def batch_forced(
    op: Operator, algorithms: tuple[Algorithm, ...], mesh: LogicalMesh, analysis: Analysis
) -> tuple[Algorithm, ...]:
    """Algorithms that map axis 0 to a loop that grows with the samples, if the operator has one.

    Operators whose weights have a loop that operands and result share, such as experts, may map axis 0 to that instead.

    Raises
    ------
    InputError
        If the axis does not divide the batch.
    """
    n = mesh.shape[0]
    batch = {x.name for x in op.loops if x.batch and x.split != "whole"}
    if n == 1 or not batch:
        return algorithms
    allowed = batch | _experts(op, analysis)
    found = tuple(a for a in algorithms if a.axes[0] in allowed)
    if found:
        return found
    sizes = op.sizes
    largest = max((sizes[x] for x in batch), default=0)
    if all(sizes[x] % n for x in batch):
        raise InputError(
            f"operator {op.name!r}: mesh axis 0 of {n} devices does not divide its batch of {largest}; take a"
            f" microbatch that is a multiple of {n}, another logical mesh, or force_batch=False"
        )
    return algorithms


def weights_cut(op: Operator, mesh: LogicalMesh, analysis: Analysis, *, scatter: bool = False) -> tuple[Algorithm, ...]:
    """Algorithms without data parallelism (`IntraOptions.data_parallel`).

    As in `derive` an operator that leads others uses all devices if its loops allow it; axes that do not fit repeat the
    work.
    """
    read = {
        x
        for name, dims in zip(op.inputs, op.parsed.operands, strict=True)
        if name in analysis.parameters
        for group in dims
        for x in group
    }
    barred = {x.name for x in op.loops if x.batch or (read and x.name not in read)}
    found = [
        a for a in derive(op, mesh, scatter=scatter, repeat=True) if not any(x in barred for x in a.axes if x)
    ]  # fmt: skip
    if not op.heavy:
        return tuple(found)
    used = [math.prod(n for x, n in zip(a.axes, mesh.shape, strict=True) if x) for a in found]
    return tuple(a for a, n in zip(found, used, strict=True) if n == max(used))


def _experts(op: Operator, analysis: Analysis) -> set[str]:
    formula = op.parsed
    if not any(name in analysis.parameters for name in op.inputs):
        return set()
    shared = set(formula.loops)
    for dims in (formula.result, *formula.operands):
        shared &= {x for group in dims for x in group}
    return shared
