"""`forward_graph`: what serving runs of a training graph."""

from __future__ import annotations

from dataclasses import replace

from ....errors import InputError
from ....profiles.graph import Graph

__all__ = ["forward_graph"]


def forward_graph(graph: Graph) -> Graph:
    """The graph without its loss, its labels, and all that a backward pass would need; also of a graph of inference.

    Nothing in it is trainable and no operator saves anything, so that the intra-op pass prices no gradient, no
    optimiser state and no sum over devices but those of the forward pass.

    Raises
    ------
    InputError
        If an operator reads the loss, or nothing is left without it.
    """
    kept = tuple(replace(op, saves=()) for op in graph.operators if op.kind != "loss")
    made = {op.name for op in kept} | set(graph.tensors)
    for op in kept:
        lost = next((name for name in op.inputs if name not in made), None)
        if lost is not None:
            raise InputError(
                f"graph {graph.name!r}: operator {op.name!r} reads the loss {lost!r}; serving has none: give a graph "
                "whose last operator is the loss"
            )
    if not kept:
        raise InputError(f"graph {graph.name!r}: no operators but the loss; expected a model to serve")
    read = {name for op in kept for name in op.inputs}
    return replace(
        graph,
        inputs=tuple(x for x in graph.inputs if x.name in read),
        parameters=tuple(replace(x, trainable=False) for x in graph.parameters if x.name in read),
        operators=kept,
        results=(),
    )
