"""The op level, then the evolution of which of its groups a graph library has, measured end to end."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .....errors import InputError
from .....planners.collage.evolution import Enough, Evolution, EvolutionOptions
from .....planners.collage.exact import place
from .....planners.collage.graph_level import GraphLevel
from .....planners.collage.instance import Instance
from .....planners.collage.placement import Placement
from .....profiles.backends.costs import CostTable
from .....runtime.backends import Captured, MeasureOptions
from ....door import Asked
from ...case import InferenceCase
from ...solve import Choice, instance_of, taken
from .groups import graph_libraries, named_groups, refuse_rest
from .trials import Groups, Trials

__all__ = ["Searched", "graph_level", "op_level", "searched"]

EVALUATIONS, SECONDS = 60, 120.0
"""What the graph level may spend if nobody says: the thesis gives it half an hour of a GPU; a guess at patience."""
ROUNDS = MeasureOptions(least_rounds=5, most_rounds=7, spread=0.03, limit_s=300.0)
"""Of a try, and of the op level beside it."""
START, TRY = "op level", "try"


@dataclass(frozen=True, slots=True)
class Searched:
    """What the evolution found, and when.

    Parameters
    ----------
    placed : Groups
        The fastest of all tries, the op level among them.
    bits : int
        Groups that the library may be given.
    start_ms : float
        What the op level takes, milliseconds: the median of all times that it was tried.
    at_s : tuple of float
        When each try was done, seconds since the begin.
    ratio : tuple of float or None
        What each took over what the op level took in the same rounds; None where it cannot run, or is wrong.
    in_time : bool
        Whether the evolution came to its end; else the seconds were used up.
    """

    placed: Groups
    bits: int
    start_ms: float
    at_s: tuple[float, ...]
    ratio: tuple[float | None, ...]
    in_time: bool


def op_level(costs: CostTable) -> tuple[Instance, Placement]:
    """The op level: patterns of operators, the whole network on one library not among them (thesis 003 §2.4.2).

    Returns
    -------
    Instance
        What was placed. The whole network on a library is the evolution's all-1 string, measured like all others.
    Placement
        The cheapest.
    """
    whole = instance_of(costs)
    instance = whole.only([k for k, match in enumerate(whole.matches) if len(match.nodes) < len(whole.nodes)])
    return instance, place(instance)


def searched(
    captured: Captured, costs: CostTable, library: str, how: EvolutionOptions, seconds: float,
    tell: Callable[[str], None], log: Path | None = None,
) -> Searched:  # fmt: skip
    """The evolution from the op level on, each try timed by turns with it (thesis 003 §2.4.3).

    Parameters
    ----------
    captured : Captured
        The network.
    costs : CostTable
        Its costs.
    library : str
        The graph library.
    how : EvolutionOptions
        Seed, population, how many placements.
    seconds : float
        When to stop; the op level and all on the library are tried in any case.
    tell : function
        Told what is being done.
    log : Path, optional
        File that keeps what each placement took over the op level: the same call goes on from there.
    """
    instance, placed = op_level(costs)
    level = GraphLevel(instance, placed, library)
    start = named_groups(costs, [(match.backend, match.nodes) for match in placed.chosen])
    in_time = True
    at_s, ratios, starts = list[float](), list[float | None](), list[float]()
    begun = time.monotonic()

    def placement(bits: str) -> Groups:
        return named_groups(costs, [(region.backend, region.nodes) for region in level.regions(bits)])

    def fitness(bits: str) -> float:
        nonlocal in_time
        if len(ratios) >= 2 and time.monotonic() - begun > seconds:
            in_time = False
            raise Enough
        tried = placement(bits)
        ratio = 1.0 if set(tried) == set(start) else None
        if ratio is None:
            found = trials.times({START: start, TRY: tried})
            if not found[START].reason and not found[TRY].reason:
                pairs = zip(found[START].samples_ms, found[TRY].samples_ms, strict=True)
                ratio = statistics.median(b / a for a, b in pairs)
                starts.append(found[START].ms)
        at_s.append(time.monotonic() - begun)
        ratios.append(ratio)
        best = 1 / min(ratio for ratio in (1.0, *ratios) if ratio is not None)
        tell(f"{library}: {len(ratios)} placements in {at_s[-1]:.0f} s, the best {best:.3f}x the op level")
        return math.inf if ratio is None else ratio

    with Trials(captured, tuple(costs.backends), ROUNDS) as trials:
        found = Evolution(len(level.free), fitness, how, log=log).run()
    middle = statistics.median(starts) if starts else math.nan
    best = placement(found.bits) if found.time_ms < 1 else start
    return Searched(best, len(level.free), middle, tuple(at_s), tuple(ratios), in_time)


def graph_level(
    case: InferenceCase, costs: CostTable, captured: Captured, asked: Asked, options: dict[str, Any]
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
    if not names:
        placed = op_level(costs)[1]
        note = f"none of {', '.join(case.backends)} is a graph library: the operator level alone"
        groups = named_groups(costs, [(match.backend, match.nodes) for match in placed.chosen])
        return Choice(groups, placed.states, (note,))
    library = library or names[0]
    path = None if log is None else asked.folder / Path(str(log))
    found = searched(captured, costs, library, how, seconds, asked.progress, path)
    tried = f"{len(found.ratio)} placements were measured" + ("" if found.in_time else f" in {seconds:g} s")
    note = f"graph level: {tried}, with {library} as the graph library and {found.bits} groups to choose for"
    return Choice(found.placed, len(found.ratio), (note,))
