"""`group_operators`: join neighbouring operators into units that no stage boundary cuts.

Planners then search over few units in place of many operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ...profiles.graph import Graph

__all__ = ["Granularity", "group_operators", "unit_edges"]

Granularity = Literal["layer", "heavy", "operator"]
"""What a unit is: a layer as the graph's tags have it, one heavy operator with the light ones around it, or a single
operator."""


def group_operators(graph: Graph, granularity: Granularity = "layer") -> tuple[tuple[int, ...], ...]:
    """Cut the graph's order of operators into units: runs of neighbouring operators.

    Any run of a topological order is convex, as constraint C1 asks. Operators with the same `layer` tag form one unit
    (but not under "heavy"). The others form units around one heavy operator each: a light operator joins the unit
    before it if it reads from it, and a heavy one joins the light operators that it reads from.

    A unit is entered at one place only, so that branches stay in different units: an operator that reads from two other
    units, such as a concatenation, begins a unit of its own. Residual sums are the exception; the unit has already read
    their other operand.

    Parameters
    ----------
    graph : Graph
        The model.
    granularity : {"layer", "heavy", "operator"}
        How fine the units are.
    """
    if granularity == "operator":
        return tuple((i,) for i in range(len(graph.operators)))
    units: list[list[int]] = []
    entered: list[set[str]] = []  # results of earlier units that each unit reads
    unit_of: list[int] = []
    heavy: list[bool] = []
    for i, op in enumerate(graph.operators):
        made = [name for name in op.inputs if name in graph.index]
        last = len(units) - 1
        outside = {name for name in made if unit_of[graph.index[name]] != last}
        tagged = op.layer >= 0 and granularity == "layer"
        if last < 0:
            joins = False
        elif tagged or (granularity == "layer" and graph.operators[units[last][-1]].layer >= 0):
            joins = tagged and graph.operators[units[last][-1]].layer == op.layer
        else:
            reads = any(unit_of[graph.index[name]] == last for name in made)
            joins = reads and outside <= entered[last] and not (op.heavy and heavy[last])
        if not joins:
            units.append([])
            entered.append(set())
            heavy.append(False)
            outside = set(made)
        units[-1].append(i)
        unit_of.append(len(units) - 1)
        entered[-1] |= outside
        heavy[-1] |= op.heavy
    return tuple(map(tuple, units))


def unit_edges(graph: Graph, units: Sequence[Sequence[int]]) -> tuple[tuple[int, int], ...]:
    """Edges (making unit, reading unit) of the graph of units, each once, in ascending order."""
    unit_of = {i: u for u, group in enumerate(units) for i in group}
    found = {
        (unit_of[graph.index[name]], unit_of[i])
        for i, op in enumerate(graph.operators)
        for name in op.inputs
        if name in graph.index
    }
    return tuple(sorted((a, b) for a, b in found if a != b))
