"""Regions as units that can be compiled and groups of a choice; graph libraries of a case; options that are left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .....errors import InputError
from .....planners.collage.graph_level import Region
from .....profiles.backends import GRAPH_LIBRARY
from .....profiles.backends.costs import CostTable
from .....runtime.collage.placed import Unit
from ...case import InferenceCase
from ...solve import Choice, singles

__all__ = ["graph_libraries", "groups_of", "refuse_rest", "units_of_regions"]


def graph_libraries(case: InferenceCase, costs: CostTable) -> list[str]:
    """Graph libraries of the case: those that run the whole network first, the fastest first."""
    alone = singles(costs)
    whole = {name: match.cost_ms for name, match in costs.whole().items()}
    names = [name for name in case.backends if costs.backends[name].kind == GRAPH_LIBRARY]
    return sorted(names, key=lambda name: (name not in whole, whole.get(name, 0.0), name not in alone))


def refuse_rest(case: InferenceCase, options: dict[str, Any]) -> None:
    """Options that nobody took are unknown.

    Raises
    ------
    InputError
        Naming the first.
    """
    if options:
        raise InputError(f"planner.options: {case.planner.name} has no option {next(iter(options))!r}")


def units_of_regions(costs: CostTable, regions: Sequence[Region]) -> list[Unit]:
    """What is compiled."""
    ids = [node.id for node in costs.graph.nodes]
    return [Unit(region.backend, tuple(ids[k] for k in region.nodes)) for region in regions]


def groups_of(costs: CostTable, regions: Sequence[tuple[str, Sequence[int]]], evaluations: int) -> Choice:
    """What is chosen."""
    ids = [node.id for node in costs.graph.nodes]
    groups = tuple((backend, tuple(ids[k] for k in sorted(nodes))) for backend, nodes in regions)
    return Choice(groups, evaluations)
