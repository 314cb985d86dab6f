"""`stretches`: parts of the network between narrow points, measured in their places, and the best that they make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .....errors import InfeasibleError, InputError, RunError
from .....planners.collage.contiguous import narrow_points, segments
from .....planners.collage.instance import Instance, Match
from .....profiles.backends.costs import CostTable
from .....runtime.collage.placed import Compiler, Unit
from ....door import Asked
from ...case import InferenceCase
from ...solve import Choice, instance_of, taken
from .groups import graph_libraries, groups_of, refuse_rest
from .timing import median_ms

__all__ = ["stretches"]

CUTS = 6
"""Stretches begin and end at so many of the narrow points."""
EAGER = "torch-onednn"


def stretches(
    case: InferenceCase, costs: CostTable, compiler: Compiler, asked: Asked, options: dict[str, Any]
) -> Choice:
    """The placement of `collage-segments`.

    Raises
    ------
    InputError
        If an option is unknown or makes no sense.
    InfeasibleError
        If no backend is a graph library, or there is no placement.
    """
    cuts = taken(options, cuts=int).get("cuts", CUTS)
    refuse_rest(case, options)
    if cuts < 1:
        raise InputError(f"planner.options: cuts: expected at least 1 (got {cuts})")
    names = graph_libraries(case, costs)
    if not names:
        raise InfeasibleError(f"collage-segments: none of {', '.join(case.backends)} is a graph library")
    instance = instance_of(costs)
    points = _spread(instance, narrow_points(instance), cuts)
    ids = [node.id for node in instance.nodes]
    matches, failed = list(instance.matches), 0
    pairs = [(a, b) for i, a in enumerate(points) for b in points[i + 1 :]]
    for name in names:
        for k, (a, b) in enumerate(pairs):
            asked.progress(f"{name}: stretch {k + 1} of {len(pairs)}")
            ms = _stretch(costs, compiler, name, a, b)
            if ms is None:
                failed += 1
            else:
                matches.append(Match(name, tuple(ids[a:b]), ids[b - 1], ms))
    found = segments(Instance(instance.nodes, tuple(matches), instance.eps))
    note = f"{len(pairs)} stretches between {len(points)} narrow points, each on {', '.join(names)}"
    choice = groups_of(costs, [(m.backend, m.nodes) for m in found.chosen], found.states)
    return replace(choice, notes=(f"{note}; {failed} could not be compiled" if failed else note,))


def _spread(instance: Instance, points: Sequence[int], cuts: int) -> list[int]:
    """Of the narrow points the ends and, between them, so many that about equal work lies between two."""
    cheapest = [min(m.cost / len(m.nodes) for m in instance.matches if v in m.nodes) for v in instance.by_id]
    before = [sum(cheapest[:k]) for k in points]
    wanted = [before[-1] * k / (cuts + 1) for k in range(1, cuts + 1)]
    near = {min(points, key=lambda p, w=w: abs(before[list(points).index(p)] - w)) for w in wanted}
    return sorted(near | {points[0], points[-1]})


def _stretch(costs: CostTable, compiler: Compiler, name: str, a: int, b: int) -> float | None:
    """Milliseconds of operators a … b − 1 on a library, between eager neighbours; None if it cannot compile them."""
    ids = [node.id for node in costs.graph.nodes]
    parts = [(EAGER, ids[:a]), (name, ids[a:b]), (EAGER, ids[b:])]
    units = [Unit(backend, tuple(nodes)) for backend, nodes in parts if nodes]
    try:
        placed = compiler.placed(units)
    except (RunError, InputError):
        return None
    at = next(k for k, unit in enumerate(placed.units) if unit.nodes == tuple(ids[a:b]))
    example = placed.captured.example
    return median_ms(placed, lambda: placed.timed(*example).unit_ms[at])
