"""`shapes_of`: the distinct shapes of operators that planners ask for on some number of devices."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...graph.compute.values import index_limit
from ...graph.costs.measured.local_operator import LocalOperator
from ...graph.graph import Graph
from ...graph.operator import Operator
from ...graph.structure import differentiable

__all__ = ["Operand", "Shape", "shapes_of"]


@dataclass(frozen=True, slots=True)
class Operand:
    """What an operator reads.

    Parameters
    ----------
    dtype : str
        Its type in the graph.
    limit : int
        Integers are drawn below it.
    wants : bool
        Whether a gradient flows into it.
    """

    dtype: str
    limit: int
    wants: bool


@dataclass(frozen=True, slots=True)
class Shape:
    """One thing to measure.

    Parameters
    ----------
    local : LocalOperator
        What it is found again by.
    whole : Operator
        The operator that it is a part of.
    operands : tuple of Operand
        What it reads.
    """

    local: LocalOperator
    whole: Operator
    operands: tuple[Operand, ...]


def shapes_of(graph: Graph, batches: Sequence[int], devices: int, dtype: str | None = None) -> list[Shape]:
    """Distinct shapes, in the order of the graph: whole operators first, then cut by few devices, then by more.

    Every loop that can be cut is cut by every divisor of the devices, and every two loops by every two numbers whose
    product is one, as a mesh of two axes cuts them.

    Parameters
    ----------
    graph : Graph
        What will be planned.
    batches : sequence of int
        Samples of a microbatch.
    devices : int
        Most devices of a stage.
    dtype : str, optional
        Type that floating-point operators are computed in; by default each in its own.

    Raises
    ------
    InputError
        If the graph cannot be scaled to such a batch.
    """
    found: dict[str, Shape] = {}
    graphs = [graph.with_batch(batch) for batch in batches]
    for pieces in (n for n in range(1, devices + 1) if devices % n == 0):
        for one in graphs:
            wants = differentiable(one)
            for op in one.operators:
                for parts in _cuts(op, pieces):
                    local = LocalOperator.of(op, parts, dtype)
                    if local is None:
                        continue
                    shape = Shape(local, op, _operands(one, op, wants))
                    known = found.get(local.key)
                    # Of equal ones that with the most gradients: it stands for all.
                    if known is None or _wanted(shape) > _wanted(known):
                        found[local.key] = shape
    return list(found.values())


def _cuts(op: Operator, pieces: int) -> Iterator[Mapping[str, int]]:
    """Ways to cut an operator into so many pieces."""
    if pieces == 1:
        yield {}
        return
    for loop in op.cuttable:
        yield {loop: pieces}
    for first in (n for n in range(2, pieces) if pieces % n == 0):
        for loop in op.cuttable:
            for other in op.cuttable:
                if loop != other:
                    yield {loop: first, other: pieces // first}


def _operands(graph: Graph, op: Operator, wants: Collection[str]) -> tuple[Operand, ...]:
    read: list[Operand] = []
    for name in op.inputs:
        at = graph.index.get(name)
        dtype = graph.tensors[name].dtype if at is None else graph.operators[at].dtype
        limit = None if dtype.startswith(("float", "bfloat")) else index_limit(graph, name)
        read.append(Operand(dtype, 2 if limit is None else limit, name in wants and op.name in wants))
    return tuple(read)


def _wanted(shape: Shape) -> int:
    return sum(one.wants for one in shape.operands)
