"""`subgraph`: some operators of a captured module as a module of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...errors import InputError
from .capture import Captured

if TYPE_CHECKING:
    import torch

__all__ = ["subgraph"]


def subgraph(captured: Captured, ids: Sequence[str]) -> torch.fx.GraphModule:
    """A module of some operators: its inputs are what they read from outside, in the order of `InferenceGraph.reads`.

    It gives a tuple: what is read outside, or is the graph's result, in the order of `InferenceGraph.results`.
    Parameters are the captured module's own tensors, not copies.

    Raises
    ------
    InputError
        If an id is no node's, none is given, or a way leads out of them and back.
    """
    import torch

    shape = captured.graph
    members = shape.bits(ids)
    if not members:
        raise InputError("subgraph: expected at least one node")
    if not shape.convex(members):
        raise InputError(f"subgraph: a way leads out of {', '.join(ids[:5])} … and back; it cannot run as one")
    by_name = {node.name: node for node in captured.module.graph.nodes}
    graph, root, made = torch.fx.Graph(), torch.nn.Module(), dict[Any, Any]()
    for name in shape.reads(members):
        made[by_name[name]] = graph.placeholder(name)

    def copied(node: torch.fx.Node) -> torch.fx.Node:
        if node not in made:
            if node.op == "get_attr":
                root.register_buffer(node.name, getattr(captured.module, str(node.target)))
                made[node] = graph.get_attr(node.name)
            else:
                for read in node.all_input_nodes:
                    copied(read)
                made[node] = graph.node_copy(node, lambda one: made[one])
        return made[node]

    for name in (node.id for k, node in enumerate(shape.nodes) if members >> k & 1):
        copied(by_name[name])
    graph.output(tuple(made[by_name[name]] for name in shape.results(members)))
    graph.lint()
    return torch.fx.GraphModule(root, graph)
