"""The leaves of a series-parallel tree: single operators, layers, or sets that a planner groups."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any, Literal

from ...errors import InputError
from .graph import Graph

__all__ = ["Groups", "acyclic", "leaf_sets", "sorted_sets"]

Groups = Literal["operators", "layers"] | Sequence[Sequence[int]]
"""What a leaf is: an operator (with its views), a layer by its tag, or the given sets of operators."""


def leaf_sets(graph: Graph, groups: Groups) -> list[int]:
    """The set of every operator; a set's number is that of its first operator."""
    sets = list(range(len(graph.operators)))
    if groups == "layers":
        first: dict[int, int] = {}
        for i, op in enumerate(graph.operators):
            if op.layer >= 0:
                sets[i] = first.setdefault(op.layer, i)
    elif groups != "operators":
        if isinstance(groups, str):
            raise InputError(f"groups: expected operators, layers or sets of positions (got {groups!r})")
        seen: set[int] = set()
        for group in groups:
            wrong = next((i for i in group if not 0 <= i < len(sets) or i in seen), None)
            if wrong is not None:
                raise InputError(
                    f"groups: expected positions from 0 to {len(sets) - 1}, each in one group (got {wrong})"
                )
            seen.update(group)
            for i in group:
                sets[i] = min(group)
    for i, op in enumerate(graph.operators):  # a view belongs to what it shows
        made = {graph.index[x] for x in op.inputs if x in graph.index}
        if op.kind == "view" and len(made) == 1 and sets[i] == i and (groups in ("operators", "layers")):
            sets[i] = sets[made.pop()]
    return sets


def acyclic(reads: list[list[int]], sets: list[int]) -> list[int]:
    """Merge sets that wait for each other, so that their graph has no cycle."""
    pairs = {(sets[j], sets[i]) for i, own in enumerate(reads) for j in own if sets[i] != sets[j]}
    if not any(a > b for a, b in pairs):  # numbered as the graph is ordered, nothing goes back
        return sets
    import numpy as np
    from scipy import sparse  # pyright: ignore[reportMissingTypeStubs]

    tools: Any = sparse
    rows, columns = zip(*sorted(pairs), strict=True)
    matrix = tools.coo_matrix((np.ones(len(pairs)), (rows, columns)), shape=(len(sets), len(sets)))
    label = tools.csgraph.connected_components(matrix, connection="strong")[1]
    first: dict[int, int] = {}
    return [first.setdefault(int(label[s]), s) for s in sets]


def sorted_sets(before: dict[int, set[int]], first: dict[int, int]) -> list[int]:
    """Sort sets topologically; where the order is free, by their first operators."""
    waits = {s: len(p) for s, p in before.items()}
    nexts: dict[int, list[int]] = {s: [] for s in before}
    for s, p in before.items():
        for q in p:
            nexts[q].append(s)
    ready = [(first[s], s) for s, n in waits.items() if n == 0]
    heapq.heapify(ready)
    found: list[int] = []
    while ready:
        _, s = heapq.heappop(ready)
        found.append(s)
        for q in nexts[s]:
            waits[q] -= 1
            if waits[q] == 0:
                heapq.heappush(ready, (first[q], q))
    return found
