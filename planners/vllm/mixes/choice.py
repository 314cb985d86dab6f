"""Which mix each model gets, so that all stand on one fleet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .search import Counts, MixFinalist, MixLevel, MixSearch

__all__ = ["Option", "assign", "best_of", "reach_first", "reach_most"]


@dataclass(frozen=True, slots=True)
class Option:
    """A finalist that a model may get.

    Parameters
    ----------
    level : MixLevel
        Where it raced.
    finalist : MixFinalist
        What it is.
    value : float
        What it counts: less is better.
    """

    level: MixLevel
    finalist: MixFinalist
    value: float


def best_of(search: MixSearch, level: MixLevel) -> Option | None:
    """The finalist of a level that attains the target and counts least; of equals the first."""
    options = [Option(level, f, search.value(f)) for f in level.reaching(search.target)]
    return min(options, key=lambda o: o.value, default=None)


def reach_first(
    search: MixSearch, levels: Sequence[tuple[float, list[Counts]]], say: Callable[[str], None]
) -> Option | None:
    """The option that attains the target and counts least; None without one.

    Levels come by what their devices count at most. The search ends at the first one below which nothing can be less.
    """
    found: Option | None = None
    for amount, group in levels:
        if found is not None and search.aim.least(amount) > found.value:
            break
        for counts in group:
            if found is not None and search.effort.eta > 1 and _covers(counts, found.level.counts):
                continue  # the same work on more devices takes no less power: each step computes less
            say(f"{amount:g} {search.aim.unit}")
            level = search.level(counts)
            option = None if level is None else best_of(search, level)
            if option is not None and (found is None or _rank(option) < _rank(found)):
                found = option
    return found


def reach_most(
    search: MixSearch, levels: Sequence[tuple[float, list[Counts]]], say: Callable[[str], None]
) -> list[Option]:
    """The best of every level; `value` is its number of devices."""
    found: list[Option] = []
    for amount, group in levels:
        for counts in group:
            say(f"{amount:g} {search.aim.unit}")
            level = search.level(counts)
            if level is not None and level.finalists:
                found.append(Option(level, level.finalists[0], amount))
    return found


def assign(
    options: Sequence[Sequence[Option]], most: Counts, better: Callable[[Sequence[Option]], tuple[float, ...]]
) -> tuple[Option, ...]:
    """One option for each model, together within the fleet; empty where there is none.

    Exact where `better` (larger is better) is a sum over the options: dynamic programming over models and devices of
    each pool.
    """
    best: dict[Counts, tuple[Option, ...]] = {(0,) * len(most): ()}
    for mine in options:
        step: dict[Counts, tuple[Option, ...]] = {}
        for used, chosen in best.items():
            for option in mine:
                counts = tuple(a + b for a, b in zip(used, option.level.counts, strict=True))
                if any(n > limit for n, limit in zip(counts, most, strict=True)):
                    continue
                taken = (*chosen, option)
                if counts not in step or better(taken) > better(step[counts]):
                    step[counts] = taken
        best = step
    return max(best.values(), key=better, default=())


def _covers(more: Counts, less: Counts) -> bool:
    return more != less and all(a >= b for a, b in zip(more, less, strict=True))


def _rank(option: Option) -> tuple[float, float, float]:
    """Less is better: what it counts, then what it attains, then its slack."""
    return option.value, -option.finalist.attained, -option.finalist.slack
