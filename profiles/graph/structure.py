"""What planners ask of a graph: which operators follow which, what crosses a cut, which ranges are the same."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from ...errors import InputError
from .graph import Graph

__all__ = [
    "check_loss",
    "depths",
    "differentiable",
    "graph_cut",
    "layer_bounds",
    "leaders",
    "reordered",
    "repeats",
    "signature",
]


def check_loss(graph: Graph) -> None:
    """Refuse a graph of inference where a training graph is expected.

    Raises
    ------
    InputError
        If the graph has results and no loss.
    """
    if graph.inference:
        raise InputError(
            f"graph {graph.name!r}: a graph of inference has no loss, so it cannot be trained; give a training graph "
            "(from_torch with a loss, without inference=True)"
        )


def reordered(graph: Graph, order: Sequence[int]) -> Graph:
    """The same graph with its operators in another topological order.

    Parameters
    ----------
    graph : Graph
        The graph.
    order : sequence of int
        For each place, the position of its operator in `graph`; empty: as it is.

    Raises
    ------
    InputError
        If the order leaves an operator out, names one twice, or puts one before what it reads.
    """
    positions = list(order)
    if not positions or positions == list(range(len(graph.operators))):
        return graph
    if sorted(positions) != list(range(len(graph.operators))):
        wrong = next((x for x in positions if positions.count(x) > 1 or not 0 <= x < len(graph.operators)), None)
        got = f"{len(positions)} entries" + ("" if wrong is None else f", {wrong} wrong or twice among them")
        raise InputError(
            f"order: expected each of the {len(graph.operators)} operators of {graph.name!r} once, 0 … "
            f"{len(graph.operators) - 1} (got {got})"
        )
    place = {x: at for at, x in enumerate(positions)}
    for x in positions:
        op = graph.operators[x]
        for name in op.inputs:
            if name in graph.index and place[graph.index[name]] > place[x]:
                raise InputError(f"order: {op.name!r} comes before {name!r}, which it reads; give a topological order")
    return replace(graph, operators=tuple(graph.operators[x] for x in positions))


def depths(graph: Graph) -> tuple[int, ...]:
    """Breadth-first depth of every operator: 1 + the deepest operand's; 1 where it reads only inputs and parameters."""
    depth: list[int] = []
    for op in graph.operators:
        depth.append(1 + max((depth[graph.index[name]] for name in op.inputs if name in graph.index), default=0))
    return tuple(depth)


_CONSTANT = frozenset(
    {
        *("nonzero", "detach", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "sign", "floor"),
        *("full", "arange", "one_hot", "argmax"),
    }
)
"""Functions whose gradient is nothing."""


def differentiable(graph: Graph) -> frozenset[str]:
    """Parameters and results that have a gradient.

    Those made of floating-point numbers and of something trainable, by functions that have one: a gate's mask stops it.

    Raises
    ------
    InputError
        If it is a graph of inference: nothing in it has one.
    """
    check_loss(graph)
    found = {t.name for t in graph.parameters if t.trainable and _floats(t.dtype)}
    for op in graph.operators:
        stops = op.attributes.get("fn") in _CONSTANT or not _floats(op.dtype)
        if not stops and any(name in found for name in op.inputs):
            found.add(op.name)
    return frozenset(found)


def _floats(dtype: str) -> bool:
    return "float" in dtype


def leaders(graph: Graph) -> tuple[int, ...]:
    """For every operator the heavy operator whose sharding it follows, by position (§4.2: the deepest operand).

    A heavy operator leads itself. A trivial one follows what its deepest operand follows, the first of equals;
    operands that follow nothing count only if all do.

    Returns
    -------
    tuple of int
        −1: none, because nothing that it is made of is heavy.
    """
    depth, found = depths(graph), list[int]()
    for i, op in enumerate(graph.operators):
        if op.heavy:
            found.append(i)
            continue
        made = [graph.index[name] for name in op.inputs if name in graph.index]
        led = [j for j in made if found[j] >= 0]
        found.append(found[max(led, key=lambda j: depth[j])] if led else -1)
    return tuple(found)


def graph_cut(graph: Graph, i: int) -> tuple[str, ...]:
    """What crosses the cut before operator `i`: results made before it and read from it on, in the order made.

    Inputs and parameters are no part of it: they are given to the stage that reads them.
    """
    return tuple(
        op.name for op in graph.operators[: max(i, 0)] if (readers := graph.consumers[op.name]) and readers[-1][0] >= i
    )


def layer_bounds(graph: Graph) -> tuple[int, ...]:
    """Positions where the `layer` tag changes, with 0 and the number of operators: ranges for `repeats`."""
    tags = [op.layer for op in graph.operators]
    return (0, *(i for i in range(1, len(tags)) if tags[i] != tags[i - 1]), len(tags))


def signature(graph: Graph, first: int, last: int) -> str:
    """Hash of the operators first … last − 1 that is the same for the same computation under other names.

    It covers kinds, formulas, loops, dtypes, FLOPs, saved values and attributes, how they are wired, what they read
    from outside (parameter, input or earlier result; shape, dtype, whether two reads are of one tensor) and which
    results are read by later operators or by none. Names and `layer` tags do not count.
    """
    outside: dict[str, int] = {}
    lines: list[str] = []
    for op in graph.operators[first:last]:
        reads: list[str] = []
        for name in op.inputs:
            j = graph.index.get(name, -1)
            if first <= j:
                reads.append(f"#{j - first}")
                continue
            number = outside.setdefault(name, len(outside))
            reads.append(f"${number}{_outside(graph, name)}")
        readers = graph.consumers[op.name]
        ends = "last" if not readers else "crosses" if readers[-1][0] >= last else ""
        ends += " result" if op.name in graph.results else ""
        loops = " ".join(f"{x.name}={x.size}{int(x.batch)}{x.split}" for x in op.loops)
        lines.append(
            f"{op.kind}|{op.formula}|{','.join(reads)}|{loops}|{op.dtype}|{op.flops!r}|{op.saves}"
            f"|{sorted(op.attributes.items())}|{ends}"
        )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def repeats(graph: Graph, bounds: Sequence[int] | None = None) -> tuple[int, ...]:
    """For every range between two bounds, the first range that is the same computation (itself where it is new).

    Parameters
    ----------
    graph : Graph
        The graph.
    bounds : sequence of int, optional
        Increasing positions, from 0 to the number of operators. By default those where the `layer` tag changes.

    Raises
    ------
    InputError
        If the bounds are not increasing positions of the graph.
    """
    edges = layer_bounds(graph) if bounds is None else tuple(bounds)
    n = len(graph.operators)
    if len(edges) < 2 or edges[0] < 0 or edges[-1] > n or any(a >= b for a, b in pairwise(edges)):
        raise InputError(f"bounds: expected increasing positions from 0 to {n} (got {edges})")
    seen: dict[str, int] = {}
    return tuple(seen.setdefault(signature(graph, a, b), k) for k, (a, b) in enumerate(pairwise(edges)))


def _outside(graph: Graph, name: str) -> str:
    if name in graph.index:
        op = graph.operators[graph.index[name]]
        return f"result{op.shape}{op.dtype}"
    tensor = graph.tensors[name]
    role = "parameter" if not tensor.batch_dims and tensor in graph.parameters else "input"
    # A parameter that others read too is cut and summed with them: it is not the same computation.
    return f"{role}{tensor.shape}{tensor.dtype}{tensor.trainable}{len(graph.consumers[name])}"
