"""The graph level's evolution on a network, watched: what was known when."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable

from ....planners.collage.evolution import EvolutionOptions
from ....planners.collage.exact import place
from ....planners.collage.graph_level import GraphLevel, Region, collage
from ....planners.collage.instance import Instance
from ....profiles.backends.costs import CostTable
from ....runtime.backends import Captured, Course, MeasureOptions
from ....worlds.inference.solve import instance_of
from .records import Search
from .timing import Placed

__all__ = ["op_level", "searched"]

EVALUATIONS = 600
"""Most placements of a search; the authors' program had 560 on ResNet-50 in 26 minutes."""
ROUNDS = MeasureOptions(least_rounds=5, most_rounds=7, spread=0.03, limit_s=300.0)
HELD_BYTES = 4e9
"""Weights that merged regions may hold in the timing process before it is started anew: each has a copy of its own."""
START, TRY = "op level", "try"


class _Over(Exception):
    """The seconds are used up."""


def op_level(costs: CostTable) -> tuple[Instance, Placed]:
    """Collage's op level: patterns of operators, the whole network on one library not among them (thesis 003 §2.4.2).

    Returns
    -------
    Instance
        What was placed.
    Placed
        The placement.
    """
    whole = instance_of(costs)
    instance = whole.only([k for k, match in enumerate(whole.matches) if len(match.nodes) < len(whole.nodes)])
    return instance, _placed(costs, [(m.backend, m.nodes) for m in place(instance).chosen])


def searched(
    captured: Captured, costs: CostTable, library: str, seconds: float, tell: Callable[[str], None], seed: int = 0
) -> tuple[Search, Placed]:
    """The evolution from the op level on, each try timed beside it; and the best placement.

    Returns
    -------
    Search
        When what was known.
    Placed
        The fastest of all tries, the op level among them.
    """
    instance, start = op_level(costs)
    names = tuple(costs.backends)
    weights = sum(t.numel() * t.element_size() for t in captured.module.buffers())
    weights += sum(t.numel() * t.element_size() for t in captured.module.parameters())
    renew = max(4, int(HELD_BYTES / max(weights, 1)))
    at_s, ratios, starts = list[float](), list[float | None](), list[float]()
    best: tuple[float, Placed] = (1.0, start)
    begun, course = time.monotonic(), Course(captured, names, ROUNDS)

    def fitness(regions: tuple[Region, ...]) -> float:
        nonlocal best, course
        if len(ratios) >= 2 and time.monotonic() - begun > seconds:  # the op level and all on the library come first
            raise _Over
        if ratios and len(ratios) % renew == 0:
            course.__exit__(None, None, None)
            course = Course(captured, names, ROUNDS)
        tried = _placed(costs, [(region.backend, region.nodes) for region in regions])
        ratio = 1.0 if set(tried) == set(start) else None
        if ratio is None:
            found = course.times({START: start, TRY: tried})
            if not found[START].reason and not found[TRY].reason:
                pairs = zip(found[START].samples_ms, found[TRY].samples_ms, strict=True)
                ratio = statistics.median(b / a for a, b in pairs)
                starts.append(found[START].ms)
        if ratio is not None and ratio < best[0]:
            best = (ratio, tried)
        at_s.append(time.monotonic() - begun)
        ratios.append(ratio)
        tell(f"{library}: {len(ratios)} placements in {at_s[-1]:.0f} s, the best {1 / best[0]:.3f}x the op level")
        return math.inf if ratio is None else ratio

    try:
        collage(instance, library, fitness, options=EvolutionOptions(seed=seed, evaluations=EVALUATIONS))
    except _Over:
        pass
    finally:
        course.__exit__(None, None, None)
    bits = len(GraphLevel(instance, place(instance), library).free)
    middle = statistics.median(starts) if starts else math.nan
    return Search(library, bits, middle, tuple(at_s), tuple(ratios), seconds), best[1]


def _placed(costs: CostTable, groups: list[tuple[str, tuple[int, ...]]]) -> Placed:
    ids = [node.id for node in costs.graph.nodes]
    return tuple((backend, tuple(ids[k] for k in sorted(nodes))) for backend, nodes in groups)
