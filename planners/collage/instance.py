"""`Instance`: a graph of operators, what backends can take of it, and what that costs. `read_instance` reads a mapping.

This is all that the op-level planners see: no tensors, no backends, no torch. A measured cost table becomes an
instance.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from ...errors import InputError
from ...files import readable
from ...reprs import Shown
from ...wording import nearest, short

__all__ = ["Instance", "Match", "Node", "read_instance"]

GRAPH_INPUT = -1
"""What an operator's inputs say where the graph's own input is read."""
KNOWN = ("nodes", "matches", "eps", "boundary_cost")


@dataclass(frozen=True, slots=True, repr=False)
class Node(Shown):
    """An operator.

    Parameters
    ----------
    id : int
        Its number, >= 0, in no particular range.
    op : str or int
        What it computes.
    inputs : tuple of int
        Ids of the operators whose results it reads, each of them listed before; −1 is an input of the graph.
    """

    id: int
    op: str | int
    inputs: tuple[int, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Match(Shown):
    """Operators that a backend can run as one unit.

    Parameters
    ----------
    backend : str
        Its name.
    nodes : tuple of int
        Ids of the operators.
    root : int
        The operator from which the pattern was matched: the last one, whose result is read outside. Other results may
        be read outside as well.
    cost : float
        Milliseconds of one run, >= 0.
    """

    backend: str
    nodes: tuple[int, ...]
    root: int
    cost: float


@dataclass(frozen=True, repr=False)
class Instance(Shown):
    """A placement problem: cover every operator exactly once by matches.

    Parameters
    ----------
    nodes : tuple of Node
        In topological order. Exactly one is read by no other: the graph's output.
    matches : tuple of Match
        What can be chosen.
    eps : float
        Milliseconds that each chosen match takes on top of its cost (the context switch of thesis 003 §2.4.2), >= 0.
    boundary_cost : float
        Milliseconds for each pair of a value and a chosen match that reads it, if another backend makes the value. A
        match that reads a value twice pays once. Inputs of the graph are free.

    Raises
    ------
    InputError
        If an id, an input, a root, a cost, or the number of outputs is not as described.
    """

    nodes: tuple[Node, ...]
    matches: tuple[Match, ...]
    eps: float = 0.0
    boundary_cost: float = 0.0

    def __post_init__(self) -> None:
        for name in ("eps", "boundary_cost"):
            _cost(getattr(self, name), name)
        if not self.nodes:
            raise InputError("nodes: expected at least one operator (got none)")
        _check_graph(self.nodes)
        known = {node.id for node in self.nodes}
        for k, match in enumerate(self.matches):
            _check_match(match, known, f"matches[{k}]")

    @property
    def backends(self) -> tuple[str, ...]:
        """Names of the backends, in the order of their first matches."""
        return tuple(dict.fromkeys(match.backend for match in self.matches))

    @cached_property
    def by_id(self) -> dict[int, Node]:
        """Id -> the operator; in the order of `nodes`."""
        return {node.id: node for node in self.nodes}

    def values_read(self, match: Match) -> list[int]:
        """Ids of the operators outside a match whose results it reads, each once."""
        held = set(match.nodes)
        inputs = (x for v in match.nodes for x in self.by_id[v].inputs)
        return [x for x in dict.fromkeys(inputs) if x >= 0 and x not in held]

    def only(self, kept: Sequence[int]) -> Instance:
        """The same problem with only these matches (indices)."""
        return Instance(self.nodes, tuple(self.matches[k] for k in kept), self.eps, self.boundary_cost)

    @classmethod
    def load(cls, path: str | Path) -> Instance:
        """Read a JSON file.

        Raises
        ------
        InputError
            If it cannot be read, or does not hold an instance.
        """
        try:
            made = json.loads(readable(path).read_text(encoding="utf-8"))
        except (ValueError, OSError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{path}: no JSON: {error}") from None
        try:
            return read_instance(made)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None

    def _headline(self) -> str:
        backends = ", ".join(self.backends)
        return f"{len(self.nodes)} operators, {len(self.matches)} matches of {backends or 'no backend'}"


def read_instance(given: Instance | Mapping[str, Any]) -> Instance:
    """An `Instance` of a mapping: ``{"nodes": [{"id", "op", "inputs"}], "matches": [{"backend", "nodes", "root",
    "cost"}], "eps", "boundary_cost"}``; the last two may be left out. An `Instance` is returned as it is.

    ``eps`` may be a list with a number for each match: each is added to its match's cost then.

    Further keys are left unread, but for those that look like a misspelled one of these.

    Raises
    ------
    InputError
        On the first thing that is not as described; says where.
    """
    if isinstance(given, Instance):
        return given
    table = mapping(given, "instance", ("nodes", "matches"))
    for key in table:
        near = None if key in KNOWN else nearest(str(key), KNOWN, 0.85)
        if near is not None and near not in table:
            raise InputError(f"instance: unknown key {key!r}; did you mean {near!r}?")
    matches = tuple(_match(m, f"matches[{k}]") for k, m in enumerate(listed(table["matches"], "matches")))
    boundary = number(table.get("boundary_cost", 0.0), "boundary_cost")
    eps: Any = table.get("eps", 0.0)
    if isinstance(eps, list | tuple):
        each = [number(x, f"eps[{k}]") for k, x in enumerate(cast("Sequence[object]", eps))]
        if len(each) != len(matches):
            raise InputError(f"eps: expected a number, or one for each of {len(matches)} matches (got {len(each)})")
        for k, ms in enumerate(each):
            _cost(ms, f"eps[{k}]")
        matches = tuple(replace(match, cost=match.cost + ms) for match, ms in zip(matches, each, strict=True))
        eps = 0.0
    return Instance(read_nodes(table["nodes"]), matches, number(eps, "eps"), boundary)


def read_nodes(given: object) -> tuple[Node, ...]:
    """The operators of a list of mappings ``{"id", "op", "inputs"}``; a `Node` is taken as it is.

    Raises
    ------
    InputError
        On the first thing that is not as described; says where.
    """
    return tuple(_node(n, f"nodes[{k}]") for k, n in enumerate(listed(given, "nodes")))


def _node(given: object, at: str) -> Node:
    if isinstance(given, Node):
        return given
    table = mapping(given, at, ("id", "op", "inputs"))
    op = table["op"]
    if isinstance(op, bool) or not isinstance(op, str | int):
        raise InputError(f"{at}.op: expected the operator's name (got {short(op)})")
    inputs = [whole(x, f"{at}.inputs[{i}]") for i, x in enumerate(listed(table["inputs"], f"{at}.inputs"))]
    return Node(whole(table["id"], f"{at}.id"), op, tuple(inputs))


def _match(given: object, at: str) -> Match:
    if isinstance(given, Match):
        return given
    table = mapping(given, at, ("backend", "nodes", "root", "cost"))
    backend = table["backend"]
    if not isinstance(backend, str) or not backend:
        raise InputError(f"{at}.backend: expected a name (got {short(backend)})")
    nodes = tuple(whole(x, f"{at}.nodes[{i}]") for i, x in enumerate(listed(table["nodes"], f"{at}.nodes")))
    return Match(backend, nodes, whole(table["root"], f"{at}.root"), number(table["cost"], f"{at}.cost"))


def mapping(given: object, at: str, keys: Sequence[str]) -> Mapping[str, Any]:
    """`given`, if it is a mapping that has these keys."""
    if not isinstance(given, Mapping):
        raise InputError(f"{at}: expected a mapping with {', '.join(keys)} (got {short(given)})")
    table = cast("Mapping[str, Any]", given)
    for key in keys:
        if key not in table:
            near = nearest(key, map(str, table))
            raise InputError(f"{at}: {key!r} is missing" + (f"; did you mean it by {near!r}?" if near else ""))
    return table


def listed(given: object, at: str) -> Sequence[object]:
    """`given`, if it is a list, a tuple, or an array."""
    if isinstance(given, str | bytes | Mapping) or not (hasattr(given, "__len__") and hasattr(given, "__iter__")):
        raise InputError(f"{at}: expected a list (got {short(given)})")
    return list(cast("Sequence[object]", given))


def whole(given: object, at: str) -> int:
    """`given`, if it is a whole number."""
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        raise InputError(f"{at}: expected a whole number (got {short(given)})")
    return int(cast("int", given))


def number(given: object, at: str) -> float:
    """`given`, if it is a number."""
    if isinstance(given, bool | str) or not hasattr(given, "__float__"):
        raise InputError(f"{at}: expected a number of milliseconds (got {short(given)})")
    return float(cast("float", given))


def _cost(value: float, at: str) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise InputError(f"{at}: expected finite milliseconds >= 0 (got {value!r})")


def _check_graph(nodes: Sequence[Node]) -> None:
    seen, read = set[int](), set[int]()
    for k, node in enumerate(nodes):
        if node.id < 0 or node.id in seen:
            what = "is taken" if node.id in seen else "is negative"
            raise InputError(f"nodes[{k}].id: expected a number >= 0 of its own ({node.id} {what})")
        for source in node.inputs:
            if source != GRAPH_INPUT and source not in seen:
                raise InputError(
                    f"nodes[{k}].inputs: operator {node.id} reads {source}, which is not listed before it; expected "
                    "a topological order, and −1 for an input of the graph"
                )
        seen.add(node.id)
        read.update(node.inputs)
    outputs = [node.id for node in nodes if node.id not in read]
    if len(outputs) != 1:
        raise InputError(
            f"nodes: expected one operator that no other reads, the output (got {short(outputs)}); let one operator "
            "gather several results"
        )


def _check_match(match: Match, known: set[int], at: str) -> None:
    _cost(match.cost, f"{at}.cost")
    if not match.nodes:
        raise InputError(f"{at}.nodes: expected at least one operator (got none)")
    held = set(match.nodes)
    if len(held) < len(match.nodes):
        raise InputError(f"{at}.nodes: expected each operator once (got {short(list(match.nodes))})")
    if not held <= known:
        raise InputError(f"{at}.nodes: no operator has the id {min(held - known)}")
    if match.root not in held:
        raise InputError(f"{at}.root: expected one of its nodes {short(list(match.nodes))} (got {match.root})")
