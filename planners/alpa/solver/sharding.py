"""`solve_sharding`: the auto-sharding ILP (Alpa, §4.2, Eq. 1), to proven optimality or with its gap.

1. Followers are merged, impossible and dominated strategies dropped, small nodes folded away (`presolve`).
2. Without memory the rest is minimised exactly by elimination, if its tables are small enough (`elimination`).
3. Memory rows get prices, which gives a lower bound and solutions near it (`multipliers`). To find a solution that
   costs less than a limit, strategies whose min-marginal at these prices reaches it are dropped, and 1 to 3 are
   repeated. The limit starts just above the bound and grows until there is one, which is then optimal.
4. What still stands is an ILP for HiGHS (`milp`).

A graph too wide for 2 is first bounded and thinned by dual ascent (`ascent`).
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ....errors import InfeasibleError, InputError, RunError
from ....reprs import Shown
from .ascent import ascend, drop_dear, simple_bound
from .elimination import Elimination, elimination_order
from .memory_rows import MemoryRows
from .milp import solve_milp
from .model import Model, Proven, build_model
from .multipliers import best_prices, paid_back, priced
from .presolve import presolve, prune
from .problem import Floats, ShardingProblem
from .search import Incumbent

__all__ = ["ShardingSolution", "solve_sharding"]

TABLE_ENTRIES = 50_000_000
"""Most table entries, in all tables together, for which elimination is used: 400 MB, and about 0.3 s for a pass."""


@dataclass(frozen=True, slots=True, repr=False)
class ShardingSolution(Shown):
    """The best choice that was found, and what is known about it.

    Parameters
    ----------
    objective : float
        Objective of the choice, Σ c + d + r.
    choice : tuple of int
        Strategy of each node.
    bound : float
        A lower bound: no solution costs less.
    status : {"optimal", "feasible"}
        Optimal: the gap is at most 1e-9 of the objective. Feasible: time ran out first.
    solver : str
        What settled it: "elimination", "prices", "ascent" or "highs".
    seconds : float
        Wall-clock seconds that the solver took.
    """

    objective: float
    choice: tuple[int, ...]
    bound: float
    status: Literal["optimal", "feasible"]
    solver: str
    seconds: float

    @property
    def gap(self) -> float:
        """(objective − bound) / |objective|; 0 where both are equal."""
        if self.objective <= self.bound:
            return 0.0
        return (self.objective - self.bound) / abs(self.objective) if self.objective else math.inf

    def __str__(self) -> str:
        return (
            f"{self.status}: {self.objective:.9g}, bound {self.bound:.9g}, gap {self.gap:.2%}, {self.seconds:.2f} s,"
            f" by {self.solver}"
        )


def solve_sharding(instance: ShardingProblem | Mapping[str, Any], time_limit: float = 60) -> ShardingSolution:
    """Choose a strategy for every node at the least total cost, within the memory.

    Parameters
    ----------
    instance : ShardingProblem or mapping
        With the fields N, M, s_len, s_follow, E, A, L, c, d, m, r, v (see `ShardingProblem.of`).
    time_limit : float
        Seconds after which the best solution so far is returned with its bound.

    Raises
    ------
    InputError
        If the instance is not well formed.
    InfeasibleError
        If nothing fits the memory and the alias pairs; the message says what is too large.
    RunError
        If time ran out before any solution was found.
    """
    if not time_limit > 0:
        raise InputError(f"solve_sharding: time_limit must be > 0 seconds (got {time_limit})")
    start = time.monotonic()
    problem = ShardingProblem.of(instance)
    rows, incumbent = MemoryRows(problem), Incumbent(problem)
    bound, solver = _solve(problem, rows, incumbent, start + time_limit)
    seconds = time.monotonic() - start
    if not incumbent.choice:
        if bound == math.inf:
            raise InfeasibleError(_why(problem))
        raise RunError(f"solve_sharding: no solution found in {time_limit:g} s (bound {bound:.6g}); raise time_limit")
    bound = min(bound, incumbent.value)
    status = "optimal" if incumbent.closed(bound) else "feasible"
    return ShardingSolution(incumbent.value, incumbent.choice, bound, status, solver, seconds)


def _solve(problem: ShardingProblem, rows: MemoryRows, incumbent: Incumbent, deadline: float) -> tuple[Proven, str]:
    """Bound of the whole instance, and what settled it; solutions are in the incumbent."""
    model = build_model(problem)
    _shrink(model, rows)
    order = elimination_order(model, TABLE_ENTRIES)
    floor = Proven(-math.inf)
    if order is None:
        # Three tenths of the time (a guess): what the ascent cannot settle must leave most of it to HiGHS.
        floor = ascend(model, rows, incumbent, time.monotonic() + 0.3 * (deadline - time.monotonic()))
        if incumbent.closed(floor):
            return floor, "ascent"
        try:
            drop_dear(model, incumbent.limit)
            _shrink(model, rows)
        except InfeasibleError:
            return Proven(incumbent.value), "ascent"
        order = elimination_order(model, TABLE_ENTRIES)
    if order is None:
        bound, solver = _without_tables(model, rows, incumbent, deadline)
        return max(bound, floor), solver
    elimination = Elimination(model, order)
    prices = best_prices(model, rows, elimination, incumbent, deadline)
    bound = max(prices.bound, floor)
    if math.isinf(bound) or incumbent.closed(bound) or time.monotonic() > deadline:
        return bound, "prices" if len(model.room) else "elimination"
    elimination.minimise(priced(model, prices.price))
    least = elimination.min_marginals()
    offset = paid_back(model, prices.price)
    del elimination
    # No solution costs less than the bound. Suppose that one costs less than a little more: few strategies are left,
    # and solving for them finds it or proves that there is none, which is a new bound.
    # The first guess is 1/10,000 above the bound or 1/256 of the gap; each further one is four times as far, so that
    # all failed guesses together cost little beside the last one.
    step = max(1e-4 * abs(bound), min(1.0, (incumbent.value - bound) / 256))
    for guess in itertools.count():
        limit = incumbent.limit
        if guess < 2 or math.isfinite(limit):
            limit = min(limit, bound + step * 4**guess)
        reached, solver = _below(model, rows, incumbent, least, offset, limit, prices.price, deadline)
        bound = max(bound, Proven(min(reached, limit)))
        if incumbent.limit <= bound or incumbent.closed(bound) or limit == math.inf or time.monotonic() > deadline:
            return bound, solver
    raise AssertionError  # the guesses grow until they reach the incumbent or infinity


def _shrink(model: Model, rows: MemoryRows) -> None:
    """Reduce a model by what holds for all time steps."""
    rows.trim(model)
    presolve(model)
    rows.trim(model)
    presolve(model)


def _below(
    model: Model,
    rows: MemoryRows,
    incumbent: Incumbent,
    least: Mapping[int, Floats],
    offset: float,
    limit: float,
    price: Floats,
    deadline: float,
) -> tuple[Proven, str]:
    """Lower bound on the solutions that cost less than the limit; inf if there are none.

    `least` has the min-marginals of the model at the prices, less `offset`.
    """
    solver = "prices"
    while True:
        relaxed = model.copy()
        try:
            for node, costs in least.items():
                prune(relaxed, node, costs + offset < limit)
            # Only the rows so far count; the others are checked when a solution is there.
            relaxed.needs = dict(relaxed.memory)
            presolve(relaxed)
            price = np.concatenate([price, np.zeros(len(relaxed.room) - len(price))])
            bound, price = _tighten(relaxed, rows, incumbent, limit, price, deadline)
        except InfeasibleError:
            return Proven(math.inf), solver
        if bound >= limit or time.monotonic() > deadline:
            return bound, solver
        solver = "highs"
        rest, new = solve_milp(relaxed, rows, incumbent, deadline)
        bound = max(bound, rest)
        if not new or bound >= min(limit, incumbent.limit):
            return bound, solver
        rows.add(model, new)


def _tighten(
    model: Model, rows: MemoryRows, incumbent: Incumbent, limit: float, price: Floats, deadline: float
) -> tuple[Proven, Floats]:
    """New prices, then drop what costs the limit or more with them, while that makes the model much smaller."""
    bound = Proven(-math.inf)
    while True:
        size = model.n_strategies
        order = elimination_order(model, TABLE_ENTRIES)
        if order is None:
            return bound, price
        elimination = Elimination(model, order)
        prices = best_prices(model, rows, elimination, incumbent, deadline, start=price, enough=limit, most=20)
        bound, price = max(bound, prices.bound), prices.price
        if bound >= limit or time.monotonic() > deadline:
            return bound, price
        elimination.minimise(priced(model, price))
        offset = paid_back(model, price)
        for node, costs in elimination.min_marginals().items():
            prune(model, node, costs + offset < limit)
        presolve(model)
        if model.n_strategies > 0.8 * size:  # new prices cost some passes: a fifth fewer strategies is what pays them
            return bound, price


def _without_tables(model: Model, rows: MemoryRows, incumbent: Incumbent, deadline: float) -> tuple[Proven, str]:
    """For graphs too wide for elimination: HiGHS on what dual ascent has left."""
    bound = simple_bound(model)
    while True:
        relaxed = model.copy()
        relaxed.needs = dict(relaxed.memory)
        try:
            presolve(relaxed)
            rest, new = solve_milp(relaxed, rows, incumbent, deadline)
        except InfeasibleError:
            rest, new = Proven(math.inf), list[int]()
        bound = max(bound, rest)
        if not new or bound >= incumbent.limit or time.monotonic() > deadline:
            return bound, "highs"
        rows.add(model, new)


def _why(problem: ShardingProblem) -> str:
    return (
        f"no choice for {problem.n_nodes} nodes satisfies the {len(problem.aliases)} alias pairs and M ="
        f" {problem.memory_bytes:.6g} bytes together, though each time step alone would fit; allow more alias pairs or"
        " raise M"
    )
