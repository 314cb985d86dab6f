r"""Dual ascent, for graphs that are too wide for elimination: costs move between nodes and tables so that a bound
rises.

Adding a vector over v's strategies to node v, and subtracting it from a pair table of v, changes the cost of no choice.
The sum of the least entries of all nodes and tables is a lower bound. Each sweep collects at every node what its tables
hold for it, and spreads that evenly over the tables that come next; this never lowers the bound (sequential reweighted
message passing; Kolmogorov 2006 and 2015). The bound approaches that of the linear relaxation at a small part of its
price. An entry that exceeds the least of its node or table by more than the distance between the bound and a known
solution cannot be part of a better one.
"""

from __future__ import annotations

import time

import numpy as np

from .memory_rows import MemoryRows
from .model import Model, Proven
from .presolve import prune
from .search import Incumbent, improve, repair

__all__ = ["ascend", "drop_dear", "simple_bound"]


def simple_bound(model: Model) -> Proven:
    """Sum of the least cost of every node and table."""
    tables = sum(float(t.min()) for v, near in model.pairs.items() for u, t in near.items() if v < u)
    return Proven(model.constant + sum(float(cost.min()) for cost in model.unary.values()) + tables)


def ascend(model: Model, rows: MemoryRows, incumbent: Incumbent, deadline: float, most: int = 200) -> Proven:
    """Move costs about until the bound stops rising: that bound. The incumbent is offered what the sweeps suggest.

    Choices cost after it what they did before.
    """
    order = sorted(model.unary)
    place = {v: at for at, v in enumerate(order)}
    bound = simple_bound(model)
    for sweep in range(most):
        forward = sweep % 2 == 0
        choice: dict[int, int] = {}
        for v in order if forward else reversed(order):
            cost = model.unary[v]
            near = model.pairs[v]
            for u, table in near.items():
                least = table.min(axis=1)
                cost = cost + least
                _set(model, v, u, table - least[:, None])
            later = [u for u in near if (place[u] > place[v]) == forward]
            # A choice is read off in two of eight sweeps (one each way): reading and repairing one costs as much as a
            # sweep. The eight is a guess.
            if sweep % 8 < 2:
                told = cost
                for u in near:
                    if u in choice:
                        told = told + model.pairs[v][u][:, choice[u]]
                choice[v] = int(np.argmin(told))
            share = cost / max(len(later), len(near) - len(later), 1)
            share = np.where(np.isfinite(share), share, 0.0)
            for u in later:
                _set(model, v, u, model.pairs[v][u] + share[:, None])
                cost = cost - share
            model.unary[v] = cost
            if time.monotonic() > deadline:
                break
        risen = simple_bound(model)
        if len(choice) == len(order) and time.monotonic() < deadline:
            _offer(model, rows, incumbent, choice, deadline)
        # A sweep back and forth that closes less than 1/10,000 of the gap is not worth another; a guess that costs no
        # correctness, for the bound holds at any time.
        if not forward and (risen - bound <= 1e-4 * abs(incumbent.value - risen) or incumbent.closed(risen)):
            return max(bound, risen)
        bound = max(bound, risen) if forward else risen
        if time.monotonic() > deadline:
            break
    return simple_bound(model)


def drop_dear(model: Model, limit: float) -> None:
    """Drop strategies and forbid pairs that cannot be in a choice that costs less than the limit."""
    # A cost above the least of its table adds to the bound of these very tables, and to no other.
    slack = limit - simple_bound(model)
    for v in list(model.unary):
        cost = model.unary[v]
        prune(model, v, cost - cost.min() < slack)
    for v, near in model.pairs.items():
        for u, table in list(near.items()):
            dear = table - table.min() >= slack
            if v < u and dear.any():
                _set(model, v, u, np.where(dear, np.inf, table))


def _set(model: Model, v: int, u: int, table: np.ndarray) -> None:
    model.pairs[v][u] = table
    model.pairs[u][v] = table.T


def _offer(model: Model, rows: MemoryRows, incumbent: Incumbent, choice: dict[int, int], deadline: float) -> None:
    better = improve(model, rows, choice, deadline)
    incumbent.offer(model.expand(better), rows)
    if rows.fits(model.expand(better)):
        return
    fixed = repair(model, rows, choice, np.zeros(len(model.room)), deadline)
    if fixed is not None:
        incumbent.offer(model.expand(improve(model, rows, fixed, deadline)), rows)
