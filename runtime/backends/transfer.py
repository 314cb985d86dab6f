"""A captured module as plain data, for a process that captures nothing itself: names of nodes stay what they are.

torch's own pickling of a graph module traces it anew and renames its nodes.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

from ...profiles.backends import InferenceGraph
from .capture import Captured

__all__ = ["Stored", "restored", "stored"]


@dataclass(frozen=True, slots=True)
class Named:
    """A node where it is an argument."""

    name: str


@dataclass(frozen=True, slots=True)
class Stored:
    """A captured module.

    Parameters
    ----------
    graph : InferenceGraph
        As of `Captured`.
    nodes : tuple
        Per node of the module its kind, name, operator, arguments and keyword arguments.
    tensors : dict of str to torch.Tensor
        Parameters by name.
    example : tuple of torch.Tensor
        As of `Captured`.
    """

    graph: InferenceGraph
    nodes: tuple[tuple[str, str, Any, Any, Any], ...]
    tensors: dict[str, Any]
    example: tuple[Any, ...]


def stored(captured: Captured) -> Stored:
    """A captured module as what can be pickled."""
    nodes, tensors = list[tuple[str, str, Any, Any, Any]](), dict[str, Any]()
    for node in captured.module.graph.nodes:
        target: Any = node.target
        if node.op == "get_attr":
            tensors[node.name] = getattr(captured.module, str(target))
        if node.op == "call_function":
            schema = getattr(target, "_schema", None)
            target = None if schema is None else (*schema.name.split("::"), target._overloadname)
        nodes.append((node.op, node.name, target, _plain(node.args), _plain(node.kwargs)))
    return Stored(captured.graph, tuple(nodes), tensors, captured.example)


def restored(held: Stored) -> Captured:
    """The captured module again."""
    import torch

    graph, root, made = torch.fx.Graph(), torch.nn.Module(), dict[str, Any]()
    for kind, name, target, args, kwargs in held.nodes:
        if kind == "get_attr":
            root.register_buffer(name, held.tensors[name])
            made[name] = graph.get_attr(name)
        elif kind == "placeholder":
            made[name] = graph.placeholder(name)
        elif kind == "output":
            graph.output(_looked_up(args[0], made))
        else:
            function: Any = operator.getitem
            if target is not None:
                space, word, overload = target
                function = getattr(getattr(getattr(torch.ops, space), word), overload)
            made[name] = graph.create_node(
                kind, function, tuple(_looked_up(args, made)), dict(_looked_up(kwargs, made)), name
            )
    graph.lint()
    return Captured(held.graph, torch.fx.GraphModule(root, graph), held.example)


def _plain(given: Any) -> Any:
    """Arguments with names in place of nodes; fx's immutable lists and dicts as Python's."""
    import torch

    if isinstance(given, torch.fx.Node):
        return Named(given.name)
    if isinstance(given, dict):
        return {name: _plain(one) for name, one in given.items()}
    if isinstance(given, list | tuple):
        return [_plain(one) for one in given] if isinstance(given, list) else tuple(map(_plain, given))
    return given


def _looked_up(given: Any, made: dict[str, Any]) -> Any:
    if isinstance(given, Named):
        return made[given.name]
    if isinstance(given, dict):
        return {name: _looked_up(one, made) for name, one in given.items()}
    if isinstance(given, list):
        return [_looked_up(one, made) for one in given]
    return tuple(_looked_up(one, made) for one in given) if isinstance(given, tuple) else given
