"""Where a pattern fits a graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...errors import InputError
from .graph import InferenceGraph, Node
from .pattern import Alternatives, Operator, Pattern, Wildcard

__all__ = ["matches_at"]

COMMUTATIVE = frozenset({"add", "mul", "maximum", "minimum", "eq", "ne", "logical_and", "logical_or"})
"""Operators whose two operands may stand in either order."""


def matches_at(graph: InferenceGraph, pattern: Pattern, root: int) -> tuple[int, ...]:
    """Sets of nodes (bits) for which a pattern fits with its root at a node; each can run as one unit.

    Operands are tried in their order, those of an addition or multiplication in both. Values inside a match may be read
    outside it, too: they are further results. A set that a way leaves and comes back to is none: it would wait for
    itself.

    Raises
    ------
    InputError
        If a condition on an attribute raises an error.
    """
    found = dict.fromkeys(_fit(graph, pattern, graph.nodes[root].id))
    return tuple(bits for bits in found if bits and graph.convex(bits))


def _fit(graph: InferenceGraph, pattern: Pattern, name: str) -> Iterator[int]:
    """Nodes inside each way in which a pattern fits a value."""
    if isinstance(pattern, Wildcard):
        yield 0
    elif isinstance(pattern, Alternatives):
        for one in pattern.choices:
            yield from _fit(graph, one, name)
    elif isinstance(pattern, Operator) and name in graph.index:
        at = graph.index[name]
        node = graph.nodes[at]
        if node.op != pattern.name or not _attributes_fit(pattern, node):
            return
        if pattern.arguments is None:
            yield 1 << at
            return
        for operands in _orders(node):
            rest = operands[len(pattern.arguments) :]
            if len(operands) < len(pattern.arguments) or any(one not in graph.constants for one in rest):
                continue
            for inside in _fit_all(graph, pattern.arguments, operands):
                yield inside | 1 << at


def _fit_all(graph: InferenceGraph, patterns: tuple[Pattern, ...], names: tuple[str, ...]) -> Iterator[int]:
    if not patterns:
        yield 0
        return
    for first in _fit(graph, patterns[0], names[0]):
        for rest in _fit_all(graph, patterns[1:], names[1:]):
            yield first | rest


def _orders(node: Node) -> tuple[tuple[str, ...], ...]:
    if node.op in COMMUTATIVE and len(node.inputs) == 2 and node.inputs[0] != node.inputs[1]:
        return node.inputs, node.inputs[::-1]
    return (node.inputs,)


def _attributes_fit(pattern: Operator, node: Node) -> bool:
    for name, wanted in pattern.attributes:
        value: Any = node.attribute(name)
        if not callable(wanted):
            if value != wanted:
                return False
            continue
        try:
            if not wanted(value):
                return False
        except Exception as error:
            raise InputError(
                f"pattern: the condition on {name!r} of {pattern.name!r} raised {type(error).__name__}: {error} "
                f"for node {node.id!r} (it got {value!r})"
            ) from error
    return True
