"""How many devices each model gets: the best split of a budget, and the fewest devices that reach a target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .search import Bracket, ModelSearch

__all__ = ["Front", "fewest", "split"]


@dataclass(frozen=True, slots=True)
class Front:
    """What one model reaches with how many devices.

    Parameters
    ----------
    model : str
        Its name.
    brackets : tuple of Bracket
        By number of devices, ascending; one for each number that some candidate uses.
    """

    model: str
    brackets: tuple[Bracket, ...]

    @property
    def pareto(self) -> tuple[Bracket, ...]:
        """Those that reach more than every one with fewer devices."""
        kept: list[Bracket] = []
        for bracket in self.brackets:
            if not kept or bracket.best.value > kept[-1].best.value:
                kept.append(bracket)
        return tuple(kept)


def split(
    fronts: Sequence[Front], weights: Sequence[float], budget: int, how: Literal["sum", "least"]
) -> list[Bracket]:
    """One bracket for each model, together within the budget.

    Maximises the weighted sum of what they reach, or the least of it (then the sum); of equals it takes the fewest
    devices. Exact: dynamic programming over models and devices.

    Parameters
    ----------
    fronts : sequence of Front
        What each model reaches.
    weights : sequence of float
        Of each model in the sum: its requests.
    budget : int
        Devices.
    how : {"sum", "least"}
        What is maximised.

    Returns
    -------
    list of Bracket
        In the order of the models; empty if the budget does not suffice.
    """
    best: dict[int, tuple[float, float, tuple[Bracket, ...]]] = {0: (math.inf, 0.0, ())}
    for front, weight in zip(fronts, weights, strict=True):
        step: dict[int, tuple[float, float, tuple[Bracket, ...]]] = {}
        for used, (least, total, chosen) in best.items():
            for bracket in front.brackets:
                devices = used + bracket.devices
                if devices > budget:
                    break  # brackets come by number of devices: all that follow need more
                value = bracket.best.value
                found = min(least, value), total + weight * value, (*chosen, bracket)
                if devices not in step or _rank(found, how) > _rank(step[devices], how):
                    step[devices] = found
        best = step
    if not best:
        return []
    devices = max(best, key=lambda n: (*_rank(best[n], how), -n))
    return list(best[devices][2])


def _rank(found: tuple[float, float, object], how: str) -> tuple[float, ...]:
    return (found[1],) if how == "sum" else (found[0], found[1])


def fewest(search: ModelSearch, target: float, limit: int) -> Bracket | None:
    """The bracket of the fewest devices, `limit` at most, whose best candidate attains the target; None without one."""
    for devices in range(search.fewest, limit + 1):
        bracket = search.bracket(devices)
        if bracket is not None and bracket.best.attained >= target:
            return bracket
    return None
