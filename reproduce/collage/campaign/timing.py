"""Placements of a network as ways of a contest: timed by turns in a process of their own, predicted from costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ....profiles.backends.costs import CostTable
from ....runtime.backends import Captured, Course, MeasureOptions, available
from .records import Way

__all__ = ["Placed", "Watch", "costed", "options", "same_again", "timed", "usable"]

Placed = tuple[tuple[str, tuple[str, ...]], ...]
"""Groups: a backend and its operators each."""

SPREAD, MORE = 0.03, 6
"""Medians of a contest are known this well, or so many rounds more than the least ones are done."""
LIMIT_S = 900.0
"""Inductor compiles a whole network within it."""


@dataclass(frozen=True, slots=True)
class Watch:
    """Least rounds of a contest, and seconds of a search: what a campaign was asked for."""

    rounds: int = 15
    search_s: float = 120.0


def options(rounds: int) -> MeasureOptions:
    """How a contest is timed."""
    return MeasureOptions(least_rounds=rounds, most_rounds=rounds + MORE, spread=SPREAD, limit_s=LIMIT_S)


def timed(
    captured: Captured, backends: Sequence[str], placements: Mapping[str, Placed], costs: CostTable, rounds: int
) -> tuple[Way, ...]:
    """Each placement as a way; one that is there twice is timed twice."""
    with Course(captured, backends, options(rounds)) as course:
        found = course.times(placements)
    return tuple(
        Way(
            name, tuple(dict.fromkeys(backend for backend, _ in placed)), len(placed), costed(costs, placed),
            found[name].samples_ms, found[name].reason,
        )
        for name, placed in placements.items()
    )  # fmt: skip


def usable(wanted: Iterable[str]) -> tuple[str, ...]:
    """Those of some backends that can be used here."""
    known = available()
    return tuple(name for name in wanted if not known[name])


def same_again(placements: Mapping[str, Placed]) -> dict[str, str]:
    """Name -> the first name with the same placement."""
    first: dict[Placed, str] = {}
    return {name: first.setdefault(placed, name) for name, placed in placements.items()}


def costed(costs: CostTable, placed: Iterable[tuple[str, Sequence[str]]]) -> float | None:
    """What a placement's measured costs add up to, contexts included; None where a group has none."""
    known = {(match.backend, frozenset(match.nodes)): match.cost_ms for match in costs.matches}
    total = 0.0
    for backend, nodes in placed:
        cost = known.get((backend, frozenset(nodes)))
        if cost is None:
            return None
        total += cost + costs.backends[backend].context_ms
    return total
