r"""Lagrangian bound of a model with memory: prices for the memory of the time steps that bind.

For prices :math:`\lambda \ge 0` the least of cost + Σ λ·(bytes − room) bounds every solution from below, and is found
exactly by elimination, as memory is a sum over nodes. The best prices maximise a concave function, whose cutting planes
are the choices seen. Each step maximises their lower envelope within a box around the best prices so far.

The bound is at least that of the linear relaxation with one-hot edges: elimination works on the hull of the choices.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from .elimination import Elimination
from .memory_rows import MemoryRows
from .model import Model, Proven
from .problem import Floats
from .search import Incumbent, improve, repair

__all__ = ["Prices", "best_prices", "paid_back", "priced"]

ROUNDING = 1e-12
"""The price paid for memory and the price given back differ by at most this share of it, through rounding in sums of
some thousand terms. It is subtracted, so that a bound stays a bound."""


@dataclass(eq=False, slots=True)
class Prices:
    """Where the search for prices ended.

    Parameters
    ----------
    bound : Proven
        The best lower bound; inf if no choice fits.
    price : ndarray, shape (rows,)
        Cost per byte in the model's rows that has it.
    """

    bound: Proven
    price: Floats


def best_prices(
    model: Model,
    rows: MemoryRows,
    elimination: Elimination,
    incumbent: Incumbent,
    deadline: float,
    start: Floats | None = None,
    enough: float = math.inf,
    most: int = 60,
) -> Prices:
    """Maximise the bound, adding rows as they are violated, and offer the incumbent what is met on the way.

    Parameters
    ----------
    model, rows, elimination
        The model to be bounded, its memory rows, and the elimination that minimises it.
    incumbent : Incumbent
        Takes every solution that fits.
    deadline : float
        `time.monotonic` at which to stop.
    start : ndarray, optional
        Prices to start from. The model then keeps the rows that it has: it may be folded as these alone demand.
    enough : float
        A bound that is as good as any better one: the search stops there.
    most : int
        Eliminations at most.
    """
    best, price = Proven(-math.inf), np.zeros(len(model.room)) if start is None else start
    ceiling = model.ceiling
    costs: list[float] = []
    usages: list[Floats] = []
    radius = 0.0
    trial = price
    predicted = np.inf
    for _ in range(most):
        value, choice = elimination.minimise(priced(model, trial))
        bound = Proven(value + paid_back(model, trial))
        full = model.expand(choice)
        usage = rows.usage(full)
        costs.append(model.value(choice))
        usages.append(usage)
        if bound > best:
            # The usual trust-region rule: widen the box if at least half of the predicted rise came true, else halve
            # it.
            if np.isfinite(best) and bound - best > 0.5 * (predicted - best):
                radius *= 2
            best, price = bound, trial
        else:
            radius /= 2
        if best > ceiling:
            return Prices(Proven(math.inf), price)  # more than any choice costs: none fits
        incumbent.offer(full, rows)
        if start is None:
            fixed = repair(model, rows, choice, trial, deadline)
            if fixed is not None:
                incumbent.offer(model.expand(improve(model, rows, fixed, deadline)), rows)
        if incumbent.closed(best) or best >= enough or time.monotonic() > deadline:
            break
        before = len(price)
        if start is None:
            rows.add(model, rows.worst(usage).tolist())
        price = np.concatenate([price, np.zeros(len(model.room) - before)])
        if not len(model.room):
            break
        # Slope of each cut: bytes above the bound, at the rows' time steps.
        slopes = np.array([u[model.steps] - rows.bound for u in usages])
        if radius == 0.0 or len(model.room) > before:
            steepest = np.abs(slopes[-1]).max()
            # How far the bound may still rise is a guess. It sizes the first step and decides nothing.
            hoped = incumbent.value if np.isfinite(incumbent.value) else best + abs(best) + 1e-9
            radius = max(radius, max(hoped - best, 1e-6 * abs(best)) / max(steepest, 1e-300))
        unit = radius
        from scipy.optimize import linprog  # half a second: only where memory binds

        result = linprog(
            np.r_[-1.0, np.zeros(len(price))],
            A_ub=np.c_[np.ones(len(costs)), -slopes * unit / _scale(costs)],
            b_ub=np.array(costs) / _scale(costs),
            bounds=[(None, None), *((max(0.0, p / unit - 1), p / unit + 1) for p in price)],
            method="highs",
        )
        if result.x is None:
            break
        predicted = float(result.x[0]) * _scale(costs)
        trial = np.maximum(result.x[1:] * unit, 0.0)
        # Nothing more to gain within the box, and the best point is inside it: then it is the best of all (concave).
        if predicted - best <= 1e-10 * abs(best) and (np.abs(trial - price) < 0.999 * radius).all():
            break
    return Prices(best, price)


def _scale(costs: list[float]) -> float:
    return max(abs(cost) for cost in costs) or 1.0


def paid_back(model: Model, price: Floats) -> float:
    """The constant to add to the least priced cost of the nodes left, so that the sum is a bound of all that fits."""
    return model.constant - float(price @ model.room) - ROUNDING * float(price @ np.abs(model.room))


def priced(model: Model, price: Floats) -> dict[int, Floats]:
    """Costs of the single nodes with memory paid for."""
    unary = dict(model.unary)
    if price.any():
        for node, needs in model.memory.items():
            unary[node] = unary[node] + price @ needs
    return unary
