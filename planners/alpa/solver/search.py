"""Heuristics that find solutions: an incumbent, repair of choices that overfill memory, and single-node improvements.

They prove nothing; a good incumbent only lets the exact steps drop more.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

import numpy as np

from .memory_rows import MemoryRows
from .model import Model
from .problem import Floats, ShardingProblem

__all__ = ["Incumbent", "improve", "repair"]

CLOSED = 1e-9
"""Gap at which a solution counts as optimal, relative to the sum of its costs' magnitudes: rounding is below it."""


class Incumbent:
    """The best solution so far: its value (inf without one), its choice, and the gap that counts as none.

    Parameters
    ----------
    problem : ShardingProblem
        The instance, by which solutions are valued.
    """

    def __init__(self, problem: ShardingProblem) -> None:
        self.problem = problem
        self.value = math.inf
        self.tolerance = 0.0
        self.choice: tuple[int, ...] = ()

    def offer(self, full: Mapping[int, int], rows: MemoryRows) -> bool:
        """Take a strategy per leader if it fits and is better."""
        choice = tuple(full[leader] for leader in rows.leader)
        value = self.problem.value(choice)
        if value < self.value and rows.fits(full) and self._allowed(choice):
            self.value, self.choice = value, choice
            self.tolerance = CLOSED * self.problem.magnitude(choice)
            return True
        return False

    def closed(self, bound: float) -> bool:
        """Whether nothing better by more than the tolerance can exist."""
        return math.isfinite(self.value) and self.value - bound <= self.tolerance

    @property
    def limit(self) -> float:
        """What costs this or more is no better."""
        return self.value - self.tolerance / 2

    def _allowed(self, choice: tuple[int, ...]) -> bool:
        pairs = zip(self.problem.aliases, self.problem.forbidden, strict=True)
        return not any(bad[choice[v], choice[u]] for (v, u), bad in pairs)


def costs_now(model: Model, node: int, choice: Mapping[int, int]) -> Floats:
    """Cost of each strategy of a node while the others stay."""
    cost = model.unary[node]
    for other, table in model.pairs[node].items():
        cost = cost + table[:, choice[other]]
    return cost


def repair(
    model: Model, rows: MemoryRows, choice: Mapping[int, int], price: Floats, deadline: float
) -> dict[int, int] | None:
    """Change one node after the other until all fits: each time what frees most overfilled bytes per cost.

    Rows that come up are added to the model. None if no single change frees anything more.
    """
    now = dict(choice)
    for _ in range(50):  # a guess: a choice that needs more changes is rarely a good solution
        usage = rows.usage(model.expand(now))
        worst = rows.worst(usage, 8)
        if not len(worst):
            return now
        rows.add(model, worst.tolist())
        while time.monotonic() < deadline:
            used = np.zeros(len(model.room))
            for node, needs in model.memory.items():
                used += needs[:, now[node]]
            over = used > model.room
            if not over.any():
                break
            step = _best_release(model, now, used - model.room)
            if step is None:
                return None
            now[step[0]] = step[1]
        if time.monotonic() >= deadline:
            return None
    return None


def _best_release(model: Model, now: Mapping[int, int], excess: Floats) -> tuple[int, int] | None:
    """The change that frees the most overfilled bytes, over all rows, for its rise in cost."""
    over = np.maximum(excess, 0.0).sum()
    best, found = math.inf, None
    for node, needs in model.memory.items():
        left = np.maximum(excess[:, None] + needs - needs[:, now[node], None], 0.0).sum(axis=0)
        gain = over - left
        if gain.max() <= 1e-12 * over:  # less is rounding, and a repair by rounding never ends
            continue
        cost = costs_now(model, node, now)
        usable = (gain > 1e-12 * over) & np.isfinite(cost)
        have = cost[now[node]]
        rise = np.where(usable, cost, 0.0) - (have if math.isfinite(have) else 0.0)
        gain = np.where(usable, gain, 1.0)
        ratio = np.where(usable, np.where(rise > 0, rise / gain, rise * gain), np.inf)
        at = int(np.argmin(ratio))
        if ratio[at] < best:
            best, found = float(ratio[at]), (node, at)
    return found


def improve(model: Model, rows: MemoryRows, choice: Mapping[int, int], deadline: float) -> dict[int, int]:
    """Single-node changes that lower the cost and keep the model's rows, until there are none."""
    now = dict(choice)
    used = np.zeros(len(model.room))
    for node, needs in model.memory.items():
        used += needs[:, now[node]]
    for _ in range(20):  # rounds over all nodes; it nearly always ends after a few, when nothing improves
        changed = False
        for node in model.unary:
            if len(model.unary[node]) == 1:
                continue
            cost = costs_now(model, node, now)
            needs = model.memory.get(node)
            if needs is not None:
                free = model.room - used
                cost = np.where((needs - needs[:, now[node], None] <= free[:, None]).all(axis=0), cost, np.inf)
            at = int(np.argmin(cost))
            if cost[at] < cost[now[node]]:
                if needs is not None:
                    used = used + needs[:, at] - needs[:, now[node]]
                now[node], changed = at, True
        if not changed or time.monotonic() > deadline:
            break
    return now
