"""`groups`: the patterns that the rule of TVM generates on a graph (thesis 003 §2.3, Method 2).

Each operator is a seed. Alone it is the first group. Then the group grows to its next post-dominator, the operator
through which every path from the seed to the output goes on, as long as the rule allows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ...errors import InputError
from ...profiles.backends.rule import post_dominators as next_post_dominators
from ...wording import short
from .instance import Instance, Node, read_nodes
from .kinds import BROADCAST, INJECTIVE, OPAQUE, OUT_FUSABLE, REDUCTION, TUPLE, kind_of

__all__ = ["groups", "post_dominators"]

MOST = 256
"""Most operators of a group: TVM's limit."""


@dataclass(frozen=True, slots=True)
class Fusion:
    """What a seed's group may take in: the largest kind of its sink, and of the operators between the two."""

    sink: int
    between: int

    @classmethod
    def of(cls, seed: int) -> Fusion | None:
        """By the seed's kind; None if it grows no group."""
        if seed == OUT_FUSABLE:
            return cls(INJECTIVE, BROADCAST)
        if seed <= BROADCAST:
            return cls(REDUCTION, INJECTIVE)
        return cls(INJECTIVE, INJECTIVE) if seed in (INJECTIVE, TUPLE) else None


def groups(nodes: Sequence[Node | Mapping[str, Any]], rule: Literal["text", "code"] = "text") -> list[list[int]]:
    """Ids of each generated group, sorted; seed by seed in the order of `nodes`, each seed's groups as they grow.

    The rule, by the kinds of `kind_of`: an opaque seed gives no group. A convolution or matrix product grows to a sink
    that is at most injective, over operators that are at most broadcasts. An elementwise or broadcasting seed grows to
    a sink that is at most a reduction, over operators that are at most injective. An injective seed or a tuple grows
    over operators that are at most injective, the sink too. A reduction does not grow. A group has at most 256
    operators.

    Parameters
    ----------
    nodes : sequence of Node or mapping
        ``{"id", "op", "inputs"}`` in topological order, as in an instance. A mapping may say its ``"kind"`` (0 … 8),
        which then counts instead of its op.
    rule : {"text", "code"}
        ``text``: every operator on a path between seed and sink must pass, else the seed grows no further. ``code``,
        what the authors' program does: paths that do not pass are dropped, and the group is what is on the others. Such
        a group may wait for itself, since operators outside lie between its own: `place` drops its matches.

    Raises
    ------
    InputError
        If the rule or an operator's kind is unknown, or `nodes` is no graph with one output.

    Notes ----- Source: thesis 003, Fig. 2.4; the kinds and bounds are those of the authors' ``TVM_PatternRule``. There
    the bound of what is between is asked of the sink as well, by the same loop, so that sinks which the first bound
    lets through are refused by the second; here a sink is held against its own bound, as both the rule and TVM's fusion
    pass mean it.
    """
    if rule not in ("text", "code"):
        raise InputError(f"rule: expected 'text' or 'code' (got {short(rule)})")
    read = read_nodes(nodes)
    Instance(read, ())  # checks the graph
    kinds = [_kind(given, node, k) for k, (given, node) in enumerate(zip(nodes, read, strict=True))]
    place = {node.id: k for k, node in enumerate(read)}
    sources = [[place[x] for x in dict.fromkeys(node.inputs) if x >= 0] for node in read]
    readers: list[list[int]] = [[] for _ in read]
    for k, those in enumerate(sources):
        for source in those:
            readers[source].append(k)
    sinks = _post_dominators(readers)
    legs: dict[tuple[int, int], list[int] | None] = {}

    def leg(start: int, most: int) -> list[int] | None:
        """Operators from one to its post-dominator, without the first; None if the rule stops there."""
        if (start, most) not in legs:
            end = sinks[start]
            assert end is not None
            passing = [kinds[v] <= most for v in range(start, end)] if rule == "code" else None
            inner = _between(start, end, readers, sources, passing)
            fits = inner is not None and all(kinds[v] <= most for v in inner)
            legs[start, most] = [*inner, end] if inner is not None and fits else None
        return legs[start, most]

    found = list[list[int]]()
    for seed, kind in enumerate(kinds):
        if kind == OPAQUE:
            continue
        group, fusion, end = [read[seed].id], Fusion.of(kind), seed
        found.append(group)
        while fusion is not None and (sink := sinks[end]) is not None and kinds[sink] <= fusion.sink:
            # Every path to the next sink goes through this one, so the group grows leg by leg.
            more = leg(end, fusion.between) if end == seed or kinds[end] <= fusion.between else None
            if more is None or len(group) + len(more) > MOST:
                break
            group, end = sorted([*group, *(read[v].id for v in more)]), sink
            found.append(group)
    return found


def post_dominators(nodes: Sequence[Node | Mapping[str, Any]]) -> dict[int, int | None]:
    """Id -> id of the next operator on every path to the output; None for the output itself.

    Raises
    ------
    InputError
        If `nodes` is no graph with one output.
    """
    read = read_nodes(nodes)
    Instance(read, ())
    place = {node.id: k for k, node in enumerate(read)}
    readers: list[list[int]] = [[] for _ in read]
    for k, node in enumerate(read):
        for source in dict.fromkeys(node.inputs):
            if source >= 0:
                readers[place[source]].append(k)
    found = _post_dominators(readers)
    return {node.id: None if sink is None else read[sink].id for node, sink in zip(read, found, strict=True)}


def _post_dominators(readers: Sequence[Sequence[int]]) -> list[int | None]:
    """Of operators in topological order."""
    return [None if sink < 0 else sink for sink in next_post_dominators(readers)]


def _between(
    start: int, end: int, readers: Sequence[Sequence[int]], sources: Sequence[Sequence[int]], passing: list[bool] | None
) -> list[int] | None:
    """Operators between two on the paths from one to the other; with `passing` (of start, start + 1, …) on those paths
    alone that have only such. None if there is no path."""

    def reached(begin: int, goal: int, links: Sequence[Sequence[int]]) -> set[int]:
        seen, stack = {begin}, [begin]
        while stack:
            for v in links[stack.pop()]:
                if v not in seen and (v == goal or (start < v < end and (passing is None or passing[v - start]))):
                    seen.add(v)
                    if v != goal:
                        stack.append(v)
        return seen

    forward = reached(start, end, readers)
    return sorted((forward & reached(end, start, sources)) - {start, end}) if end in forward else None


def _kind(given: Node | Mapping[str, Any], node: Node, k: int) -> int:
    kind = given.get("kind") if isinstance(given, Mapping) else None
    return kind_of(node.op if kind is None else kind, f"nodes[{k}]")
