"""`Placement`: which matches run a graph, in an order in which they can run; and what a set of matches costs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from ...errors import InputError
from ...reprs import Shown
from .instance import Instance, Match

__all__ = ["Placement", "placement_of", "price", "running_order"]


@dataclass(frozen=True, repr=False)
class Placement(Shown):
    """An exact cover of an instance's operators.

    Parameters
    ----------
    cost : float
        Milliseconds: Σ cost + ε · (number of matches) + boundaries.
    matches : tuple of int
        Indices into the instance's matches, in an order in which they can run. Only where `circular`: ascending.
    chosen : tuple of Match
        The same matches themselves.
    planner : str
        Who made it.
    boundary_ms : float
        The share of boundaries in `cost`.
    circular : bool
        Whether some of the matches wait for each other, so that it cannot run. Only Algorithm 1 as published makes
        such ones.
    states : int
        How many states the search held.
    """

    cost: float
    matches: tuple[int, ...]
    chosen: tuple[Match, ...]
    planner: str
    boundary_ms: float = 0.0
    circular: bool = False
    states: int = 0

    @property
    def backends(self) -> dict[str, int]:
        """Name of a backend -> how many operators it runs."""
        count: dict[str, int] = {}
        for match in self.chosen:
            count[match.backend] = count.get(match.backend, 0) + len(match.nodes)
        return count

    def _headline(self) -> str:
        shares = ", ".join(f"{name} {n}" for name, n in self.backends.items())
        cannot = ", circular" if self.circular else ""
        return f"{self.planner}, {self.cost:.4g} ms, {len(self.matches)} matches; operators: {shares}{cannot}"


def price(instance: Instance, matches: Iterable[int]) -> tuple[float, float]:
    """Milliseconds of a cover, and of its boundaries alone. The sums are exact but for one rounding."""
    chosen = [instance.matches[k] for k in matches]
    owner = _owners(chosen)
    crossings = 0
    for k, match in enumerate(chosen):
        for value in instance.values_read(match):
            crossings += chosen[owner[value]].backend != chosen[k].backend
    boundary_ms = instance.boundary_cost * crossings
    return math.fsum([*(m.cost for m in chosen), *[instance.eps] * len(chosen), boundary_ms]), boundary_ms


def running_order(instance: Instance, matches: Sequence[int]) -> tuple[int, ...] | None:
    """An order in which the matches of a cover can run; None if some wait for each other in a circle.

    Of those that could run, the one whose last operator is listed first.
    """
    chosen = [instance.matches[k] for k in matches]
    owner, place = _owners(chosen), {node.id: k for k, node in enumerate(instance.nodes)}
    waits = [{owner[value] for value in instance.values_read(match)} for match in chosen]
    readers: list[list[int]] = [[] for _ in chosen]
    for k, producers in enumerate(waits):
        for producer in producers:
            readers[producer].append(k)
    last = [max(place[v] for v in match.nodes) for match in chosen]
    ready = [(last[k], k) for k, producers in enumerate(waits) if not producers]
    heapify(ready)
    order = list[int]()
    while ready:
        _, k = heappop(ready)
        order.append(matches[k])
        for reader in readers[k]:
            waits[reader].discard(k)
            if not waits[reader]:
                heappush(ready, (last[reader], reader))
    return tuple(order) if len(order) == len(chosen) else None


def placement_of(instance: Instance, matches: Sequence[int], planner: str, states: int = 0) -> Placement:
    """The `Placement` of a set of matches.

    Raises
    ------
    InputError
        If they do not cover every operator exactly once.
    """
    covered = sorted(v for k in matches for v in instance.matches[k].nodes)
    if covered != sorted(node.id for node in instance.nodes):
        raise InputError("matches: expected every operator exactly once")
    order = running_order(instance, matches)
    cost, boundary_ms = price(instance, matches)
    found = tuple(sorted(matches)) if order is None else order
    chosen = tuple(instance.matches[k] for k in found)
    return Placement(cost, found, chosen, planner, boundary_ms, order is None, states)


def _owners(chosen: Sequence[Match]) -> dict[int, int]:
    return {v: k for k, match in enumerate(chosen) for v in match.nodes}
