"""Regions by the names of their operators; graph libraries of a case; options that are left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .....errors import InputError
from .....profiles.backends import GRAPH_LIBRARY
from .....profiles.backends.costs import CostTable
from ...case import InferenceCase
from ...solve import singles
from .trials import Groups

__all__ = ["graph_libraries", "named_groups", "refuse_rest"]


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


def named_groups(costs: CostTable, regions: Iterable[tuple[str, Sequence[int]]]) -> Groups:
    """Regions by the names of their operators, in the network's order."""
    ids = [node.id for node in costs.graph.nodes]
    return tuple((backend, tuple(ids[k] for k in sorted(nodes))) for backend, nodes in regions)
