"""`stretches`: parts of the network between narrow points, measured in their places, and the best that they make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .....errors import InfeasibleError, InputError
from .....planners.collage.contiguous import narrow_points, segments
from .....planners.collage.instance import Instance, Match
from .....profiles.backends.costs import CostTable
from .....runtime.backends import Captured, MeasureOptions
from ....door import Asked
from ...case import InferenceCase
from ...solve import Choice, instance_of, taken
from .groups import graph_libraries, named_groups, refuse_rest
from .trials import Trials

__all__ = ["stretches"]

CUTS = 6
"""Stretches begin and end at so many of the narrow points."""
EAGER = "torch-onednn"
ROUNDS = MeasureOptions(least_rounds=5, most_rounds=5, limit_s=300.0)


def stretches(
    case: InferenceCase, costs: CostTable, captured: Captured, asked: Asked, options: dict[str, Any]
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
    with Trials(captured, (EAGER, *names), ROUNDS) as trials:
        for name in names:
            for k, (a, b) in enumerate(pairs):
                asked.progress(f"{name}: stretch {k + 1} of {len(pairs)}")
                ms = _stretch(costs, trials, name, a, b)
                if ms is None:
                    failed += 1
                else:
                    matches.append(Match(name, tuple(ids[a:b]), ids[b - 1], ms))
    found = segments(Instance(instance.nodes, tuple(matches), instance.eps))
    note = f"{len(pairs)} stretches between {len(points)} narrow points, each on {', '.join(names)}"
    groups = named_groups(costs, [(match.backend, match.nodes) for match in found.chosen])
    return Choice(groups, found.states, (f"{note}; {failed} cannot run there" if failed else note,))


def _spread(instance: Instance, points: Sequence[int], cuts: int) -> list[int]:
    """Of the narrow points the ends and, between them, so many that about equal work lies between two."""
    cheapest = [min(m.cost / len(m.nodes) for m in instance.matches if v in m.nodes) for v in instance.by_id]
    before = [sum(cheapest[:k]) for k in points]
    wanted = [before[-1] * k / (cuts + 1) for k in range(1, cuts + 1)]
    near = {min(points, key=lambda p, w=w: abs(before[list(points).index(p)] - w)) for w in wanted}
    return sorted(near | {points[0], points[-1]})


def _stretch(costs: CostTable, trials: Trials, name: str, a: int, b: int) -> float | None:
    """Milliseconds of operators a … b − 1 on a library, between eager neighbours; None if it cannot run them."""
    n = len(costs.graph.nodes)
    parts = named_groups(costs, [(EAGER, range(a)), (name, range(a, b)), (EAGER, range(b, n))])
    groups = tuple((backend, nodes) for backend, nodes in parts if nodes)
    found = trials.times({name: groups})[name]
    return next((one.ms for one in found.groups if (one.backend, one.nodes) == (name, parts[1][1])), None)
