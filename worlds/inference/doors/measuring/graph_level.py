"""`graph_level`: the op level, then the evolution of which of its groups a graph library has, measured end to end."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from .....errors import InputError
from .....planners.collage.evolution import Evolution, EvolutionOptions
from .....planners.collage.exact import place
from .....planners.collage.graph_level import GraphLevel
from .....profiles.backends.costs import CostTable
from .....runtime.collage.placed import Compiler
from ....door import Asked
from ...case import InferenceCase
from ...solve import Choice, instance_of, taken
from .groups import graph_libraries, groups_of, refuse_rest, units_of_regions
from .timing import ms_beside

__all__ = ["graph_level"]

EVALUATIONS, SECONDS = 60, 120.0
"""What the graph level may spend if nobody says: the thesis gives it half an hour of a GPU; a guess at patience."""


class _Over(Exception):
    """The seconds are used up."""


def graph_level(
    case: InferenceCase, costs: CostTable, compiler: Compiler, asked: Asked, options: dict[str, Any]
) -> Choice:
    """The placement of `collage`.

    Raises
    ------
    InputError
        If an option is unknown or makes no sense.
    InfeasibleError
        If there is no placement.
    """
    said = taken(options, evaluations=int, population=int, seconds=float)
    library, log = options.pop("library", None), options.pop("log", None)
    refuse_rest(case, options)
    seconds = said.pop("seconds", SECONDS)
    if not seconds > 0:
        raise InputError(f"planner.options: seconds: expected a positive number (got {seconds!r})")
    names = graph_libraries(case, costs)
    if library is not None and library not in names:
        raise InputError(f"planner.options: library: expected one of {', '.join(names) or 'none'} (got {library!r})")
    how = EvolutionOptions(**{"seed": case.seed, "evaluations": EVALUATIONS, **said})
    whole = instance_of(costs)
    # the whole network on one library is the all-1 string, measured like all others, and no group of the op level
    instance = whole.only([k for k, match in enumerate(whole.matches) if len(match.nodes) < len(whole.nodes)])
    placed = place(instance)
    if not names:
        note = f"none of {', '.join(case.backends)} is a graph library: the operator level alone"
        return replace(groups_of(costs, [(m.backend, m.nodes) for m in placed.chosen], placed.states), notes=(note,))
    library = library or names[0]
    level = GraphLevel(instance, placed, library)
    reference = compiler.placed(units_of_regions(costs, level.regions("0" * len(level.free))))
    known: dict[str, float] = {}
    end = time.monotonic() + seconds

    def fitness(bits: str) -> float:
        if len(known) >= 2 and time.monotonic() > end:  # the op level and all on the library come first
            raise _Over
        known[bits] = ms_beside(compiler, units_of_regions(costs, level.regions(bits)), reference)
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
    return replace(groups_of(costs, regions, len(known)), notes=(note,))
