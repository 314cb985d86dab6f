"""Units: groups of operators that no stage boundary cuts, and which of them follow which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from ...profiles.graph import Graph

__all__ = ["Granularity", "closure", "plan_units"]

Granularity = Literal["operator", "heavy", "layer"]
Bools = npt.NDArray[np.bool_]


def plan_units(graph: Graph, granularity: Granularity = "heavy") -> tuple[tuple[int, ...], ...]:
    """Groups of operators, in topological order.

    Parameters
    ----------
    graph : Graph
        What is cut into stages.
    granularity : {"operator", "heavy", "layer"}
        Operator: each by itself. Heavy: each heavy operator with the light ones that follow it; light ones at the
        beginning go with what reads them. Layer: the operators of one `layer` tag, else as heavy.
    """
    if granularity == "operator":
        return tuple((i,) for i in range(len(graph.operators)))
    unit_of, groups = _followed(graph, granularity)
    return _absorbed(graph, unit_of, groups)


def closure(graph: Graph, units: Sequence[Sequence[int]]) -> Bools:
    """[u, v]: whether unit v comes after unit u, directly or not."""
    unit_of = np.empty(len(graph.operators), np.int64)
    for u, group in enumerate(units):
        unit_of[list(group)] = u
    after = np.zeros((len(units), len(units)), bool)
    for i, op in enumerate(graph.operators):
        for name in op.inputs:
            if name in graph.index and unit_of[graph.index[name]] != unit_of[i]:
                after[unit_of[graph.index[name]], unit_of[i]] = True
    for u in reversed(range(len(units))):  # units are in topological order
        for v in np.flatnonzero(after[u]):
            after[u] |= after[v]
    return after


def _followed(graph: Graph, granularity: Granularity) -> tuple[list[int], list[list[int]]]:
    """Light operators join the latest unit that they read, where the others that they read come before it."""
    unit_of: list[int] = []
    groups: list[list[int]] = []
    before: list[set[int]] = []  # all units before each
    layer_of: dict[int, int] = {}
    for i, op in enumerate(graph.operators):
        read = {unit_of[graph.index[name]] for name in op.inputs if name in graph.index}
        latest = next((u for u in read if read - {u} <= before[u]), -1)
        home = -1
        if granularity == "layer" and op.layer >= 0:
            home = layer_of.get(op.layer, -1)
            if home >= 0 and any(home in before[u] for u in read):  # what it reads comes after the rest of its layer
                home = -1
        elif not op.heavy:
            home = latest
            if home >= 0 and granularity == "layer" and graph.operators[groups[home][0]].layer >= 0:
                home = -1  # a layer holds what is tagged so
        if home < 0:
            home = len(groups)
            groups.append([])
            before.append(set())
            if op.layer >= 0:
                layer_of[op.layer] = home
        unit_of.append(home)
        groups[home].append(i)
        for u in read - {home}:
            new = {u} | before[u]
            if not new <= before[home]:
                for v in range(len(groups)):  # what is before a unit is before all that follow it
                    if v == home or home in before[v]:
                        before[v] |= new
    return unit_of, groups


def _absorbed(graph: Graph, unit_of: list[int], groups: list[list[int]]) -> tuple[tuple[int, ...], ...]:
    """Units without a heavy operator go with the one unit that reads them; in topological order."""
    count = len(groups)
    follows: list[set[int]] = [set() for _ in range(count)]
    for i, op in enumerate(graph.operators):
        for name in op.inputs:
            if name in graph.index and unit_of[graph.index[name]] != unit_of[i]:
                follows[unit_of[graph.index[name]]].add(unit_of[i])
    home = list(range(count))

    def root(u: int) -> int:
        while home[u] != u:
            u = home[u]
        return u

    for u in range(count):
        light = not any(graph.operators[i].heavy for i in groups[u])
        readers = {root(v) for v in follows[u]} - {root(u)}
        reads = {unit_of[graph.index[n]] for i in groups[u] for n in graph.operators[i].inputs if n in graph.index} - {
            u
        }
        if light and len(readers) == 1 and (not reads or len(reads) > 1):
            home[u] = readers.pop()
    merged: dict[int, list[int]] = {}
    for u in range(count):
        merged.setdefault(root(u), []).extend(groups[u])
    return _sorted_units(graph, [sorted(group) for group in merged.values()])


def _sorted_units(graph: Graph, groups: list[list[int]]) -> tuple[tuple[int, ...], ...]:
    """Kahn's order, the unit with the earliest operator first among those that may come."""
    import heapq

    at = {i: u for u, group in enumerate(groups) for i in group}
    waits: list[set[int]] = [set() for _ in groups]
    for i, op in enumerate(graph.operators):
        waits[at[i]] |= {at[graph.index[n]] for n in op.inputs if n in graph.index} - {at[i]}
    readers: list[list[int]] = [[] for _ in groups]
    for u, need in enumerate(waits):
        for v in need:
            readers[v].append(u)
    ready = [(group[0], u) for u, group in enumerate(groups) if not waits[u]]
    heapq.heapify(ready)
    order: list[tuple[int, ...]] = []
    while ready:
        _, u = heapq.heappop(ready)
        order.append(tuple(groups[u]))
        for v in readers[u]:
            waits[v].discard(u)
            if not waits[v]:
                heapq.heappush(ready, (groups[v][0], v))
    return tuple(order)
