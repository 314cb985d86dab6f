"""Planners that measure placements while they plan: the graph level of Collage, and stretches for graph libraries."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ....errors import InfeasibleError, InputError, RunError
from ....planners.collage.contiguous import narrow_points, segments
from ....planners.collage.evolution import Evolution, EvolutionOptions
from ....planners.collage.exact import place
from ....planners.collage.graph_level import GraphLevel, Region
from ....planners.collage.instance import Instance, Match
from ....profiles.backends import GRAPH_LIBRARY
from ....profiles.backends.costs import CostTable
from ....runtime.collage.placed import Compiler, Placed, Unit
from ....runtime.collage.rounds import one_core
from ...door import Asked
from ..case import InferenceCase
from ..solve import Choice, instance_of, singles, taken

__all__ = ["measured_choice"]

CALLS = 5
"""Calls of a placement, and of the reference beside each, of which medians are taken."""
WARM = 2
EVALUATIONS, SECONDS = 60, 120.0
"""What the graph level may spend if nobody says: the thesis gives it half an hour of a GPU; a guess at patience."""
CUTS = 6
"""Stretches begin and end at so many of the narrow points."""
EAGER = "torch-onednn"


class _Over(Exception):
    """The seconds are used up."""


def measured_choice(case: InferenceCase, costs: CostTable, compiler: Compiler, asked: Asked) -> Choice:
    """The placement of `collage` or `collage-segments`.

    Raises
    ------
    InputError
        If an option is unknown or makes no sense, or no backend is a graph library.
    InfeasibleError
        If there is no placement.
    """
    options = dict(case.planner.options)
    solve = {"collage": _graph_level, "collage-segments": _segments}[case.planner.name]
    return solve(case, costs, compiler, asked, options)


def _libraries(case: InferenceCase, costs: CostTable) -> list[str]:
    """Graph libraries of the case: those that run the whole network first, the fastest first."""
    alone = singles(costs)
    whole = {name: match.cost_ms for name, match in costs.whole().items()}
    names = [name for name in case.backends if costs.backends[name].kind == GRAPH_LIBRARY]
    return sorted(names, key=lambda name: (name not in whole, whole.get(name, 0.0), name not in alone))


def _refuse_rest(case: InferenceCase, options: dict[str, Any]) -> None:
    if options:
        raise InputError(f"planner.options: {case.planner.name} has no option {next(iter(options))!r}")


def _graph_level(
    case: InferenceCase, costs: CostTable, compiler: Compiler, asked: Asked, options: dict[str, Any]
) -> Choice:
    """The op level, then the evolution: which of its groups a graph library has, measured end to end."""
    said = taken(options, evaluations=int, population=int, seconds=float)
    library, log = options.pop("library", None), options.pop("log", None)
    _refuse_rest(case, options)
    seconds = said.pop("seconds", SECONDS)
    if not seconds > 0:
        raise InputError(f"planner.options: seconds: expected a positive number (got {seconds!r})")
    names = _libraries(case, costs)
    if library is not None and library not in names:
        raise InputError(f"planner.options: library: expected one of {', '.join(names) or 'none'} (got {library!r})")
    how = EvolutionOptions(**{"seed": case.seed, "evaluations": EVALUATIONS, **said})
    whole = instance_of(costs)
    # the whole network on one library is the all-1 string, measured like all others, and no group of the op level
    instance = whole.only([k for k, match in enumerate(whole.matches) if len(match.nodes) < len(whole.nodes)])
    placed = place(instance)
    if not names:
        note = f"none of {', '.join(case.backends)} is a graph library: the operator level alone"
        return replace(_groups(costs, [(m.backend, m.nodes) for m in placed.chosen], placed.states), notes=(note,))
    library = library or names[0]
    level = GraphLevel(instance, placed, library)
    reference = compiler.placed(_units(costs, level.regions("0" * len(level.free))))
    known: dict[str, float] = {}
    end = time.monotonic() + seconds

    def fitness(bits: str) -> float:
        if len(known) >= 2 and time.monotonic() > end:  # the op level and all on the library come first
            raise _Over
        known[bits] = _beside(compiler, _units(costs, level.regions(bits)), reference)
        asked.progress(f"{library}: {len(known)} placements measured, the fastest {min(known.values()):.4g} ms")
        return known[bits]

    try:
        found = Evolution(
            len(level.free), fitness, how, log=None if log is None else asked.folder / Path(str(log))
        ).run()
        bits, ended = found.bits, f"{found.evaluations} placements were measured"
    except _Over:
        bits, ended = min(known, key=known.__getitem__), f"{len(known)} placements were measured in {seconds:g} s"
    note = f"graph level: {ended}, with {library} as the graph library and {len(level.free)} groups to choose for"
    regions = [(region.backend, region.nodes) for region in level.regions(bits)]
    return replace(_groups(costs, regions, len(known)), notes=(note,))


def _segments(
    case: InferenceCase, costs: CostTable, compiler: Compiler, asked: Asked, options: dict[str, Any]
) -> Choice:
    """Stretches of the network, each measured in its place on each graph library, and the best that they make."""
    cuts = taken(options, cuts=int).get("cuts", CUTS)
    _refuse_rest(case, options)
    if cuts < 1:
        raise InputError(f"planner.options: cuts: expected at least 1 (got {cuts})")
    names = _libraries(case, costs)
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
    choice = _groups(costs, [(m.backend, m.nodes) for m in found.chosen], found.states)
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
    return _median(placed, lambda: placed.timed(*example).unit_ms[at])


def _median(placed: Placed, lap: Callable[[], float]) -> float:
    import torch

    with one_core(), torch.inference_mode():
        for _ in range(WARM):
            placed(*placed.captured.example)
        return statistics.median(lap() for _ in range(CALLS))


def _beside(compiler: Compiler, units: Sequence[Unit], reference: Placed) -> float:
    """Milliseconds of a placement, by its ratio to a reference in the same moments; inf if it cannot be compiled."""
    import torch

    try:
        placed = compiler.placed(units)
    except RunError:
        return float("inf")
    example, ratios = placed.captured.example, list[float]()
    base = _median(reference, lambda: reference.timed(*example).total_ms)
    with one_core(), torch.inference_mode():
        for _ in range(WARM):
            placed(*example)
        for _ in range(CALLS):
            laps = list[int]()
            for one in (reference, placed):
                begun = time.process_time_ns()
                one(*example)
                laps.append(time.process_time_ns() - begun)
            ratios.append(laps[1] / laps[0])
    return base * statistics.median(ratios)


def _units(costs: CostTable, regions: Sequence[Region]) -> list[Unit]:
    ids = [node.id for node in costs.graph.nodes]
    return [Unit(region.backend, tuple(ids[k] for k in region.nodes)) for region in regions]


def _groups(costs: CostTable, regions: Sequence[tuple[str, Sequence[int]]], evaluations: int) -> Choice:
    ids = [node.id for node in costs.graph.nodes]
    groups = tuple((backend, tuple(ids[k] for k in sorted(nodes))) for backend, nodes in regions)
    return Choice(groups, evaluations)
