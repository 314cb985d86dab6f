r"""The auto-sharding ILP for SCIP, with linearised edges.

An edge has a variable for each pair of strategies. They are tied to the nodes as the marginals of a distribution:

.. math:: \sum_j e_{ij} = s_{v,i}, \qquad \sum_i e_{ij} = s_{u,j} .

This is tighter than the usual e ≥ s_v + s_u − 1, and with one-hot nodes the edges are integral by themselves, so only
the nodes are integer variables.

The solver was picked by measurement on what presolve leaves of a 24-layer GPT with memory (892 and 1,031 strategies):
SCIP 1.1 and 4.1 CPU seconds, HiGHS 3.0 and 8.5, CP-SAT unsolved after 40 and 54.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np

from .memory_rows import MemoryRows
from .model import Model
from .problem import Floats
from .search import Incumbent

__all__ = ["solve_milp"]

GAP = 1e-10
"""Relative gap at which the solver stops."""


@dataclass(eq=False, slots=True)
class _Matrix:
    """Rows of a sparse matrix as they come."""

    data: list[float]
    row: list[int]
    column: list[int]
    low: list[float]
    high: list[float]

    def add(self, columns: list[int], values: list[float], low: float, high: float) -> None:
        self.data += values
        self.column += columns
        self.row += [len(self.low)] * len(columns)
        self.low.append(low)
        self.high.append(high)


def solve_milp(model: Model, rows: MemoryRows, incumbent: Incumbent, deadline: float) -> tuple[float, list[int]]:
    """Solve what is left: (lower bound on it, time steps that its solution overfills and that are not rows yet).

    Solutions that fit go to the incumbent. A model without any solution has the bound inf.
    """
    if not model.unary:
        full_choice = model.expand({})
        incumbent.offer(full_choice, rows)
        new = [step for step in rows.worst(rows.usage(full_choice), 8).tolist() if step not in model.steps]
        return (model.constant if new or rows.fits(full_choice) else math.inf), new
    offset: dict[int, int] = {}
    size = 0
    for node, cost in model.unary.items():
        offset[node] = size
        size += len(cost)
    cost, matrix, shift = _edges(model, incumbent, offset, size)
    # Tolerances are absolute, 1e-6 or so: make the objective large enough for them to be nothing.
    scale = (
        incumbent.value - shift if math.isfinite(incumbent.value) else float(cost[np.isfinite(cost)].max(initial=0.0))
    ) / 1e4
    scale = scale if scale > 0 else 1.0
    cuts: list[tuple[list[int], float]] = []
    best = -math.inf
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return best, []
        full = _Matrix(list(matrix.data), list(matrix.row), list(matrix.column), list(matrix.low), list(matrix.high))
        for at, room in enumerate(model.room):
            columns = [offset[v] + i for v, needs in model.memory.items() for i in np.flatnonzero(needs[at]).tolist()]
            values = [x for needs in model.memory.values() for x in needs[at][needs[at] > 0].tolist()]
            unit = max([abs(float(room)), *values])
            full.add(columns, [x / unit for x in values], -math.inf, float(room) / unit)
        for columns, high in cuts:
            full.add(columns, [1.0] * len(columns), -math.inf, high)
        values, bound = _scip(cost / scale, size, full, deadline)
        best = max(best, bound * scale + shift)
        if values is None:
            return best, []
        choice = {v: int(np.argmax(values[offset[v] : offset[v] + len(model.unary[v])])) for v in model.unary}
        expanded = model.expand(choice)
        incumbent.offer(expanded, rows)
        usage = rows.usage(expanded)
        broken = rows.worst(usage, 8).tolist()
        new = [step for step in broken if step not in model.steps]
        if not broken or new:
            return best, new
        for step in broken:
            # Broken by less than the solver's tolerance: forbid this very filling of the row.
            at = int(np.flatnonzero(model.steps == step)[0])
            filled = [v for v, needs in model.memory.items() if needs[at].any()]
            cuts.append(([offset[v] + choice[v] for v in filled], len(filled) - 1.0))


def _scip(cost: Floats, n_whole: int, matrix: _Matrix, deadline: float) -> tuple[Floats | None, float]:
    """Best values of the variables, None if there are none yet, and the lower bound, inf if there can be none."""
    from ortools.math_opt.python import mathopt

    problem = mathopt.Model()
    usable = np.isfinite(cost)
    variables = [
        problem.add_variable(lb=0.0, ub=float(ok), is_integer=at < n_whole) for at, ok in enumerate(usable.tolist())
    ]
    terms: list[list[Any]] = [[] for _ in matrix.low]
    for row, column, value in zip(matrix.row, matrix.column, matrix.data, strict=True):
        terms[row].append(value * variables[column])
    for row, low, high in zip(terms, matrix.low, matrix.high, strict=True):
        problem.add_linear_constraint(lb=low, ub=high, expr=mathopt.LinearSum(row))
    paid = np.flatnonzero(usable & (cost > 0)).tolist()
    problem.minimize(mathopt.LinearSum(float(cost[at]) * variables[at] for at in paid))
    left = max(deadline - time.monotonic(), 0.05)
    parameters = mathopt.SolveParameters(
        time_limit=timedelta(seconds=left), relative_gap_tolerance=GAP, absolute_gap_tolerance=0.0, threads=1
    )
    result = mathopt.solve(problem, mathopt.SolverType.GSCIP, params=parameters)
    reason = result.termination.reason
    if reason in (mathopt.TerminationReason.INFEASIBLE, mathopt.TerminationReason.INFEASIBLE_OR_UNBOUNDED):
        return None, math.inf
    bound = float(result.termination.objective_bounds.dual_bound)
    if not result.has_primal_feasible_solution():
        return None, bound
    return np.array([result.variable_values()[x] for x in variables]), bound


def _edges(model: Model, incumbent: Incumbent, offset: dict[int, int], size: int) -> tuple[Floats, _Matrix, float]:
    """Costs of all variables, the rows of nodes and edges, and the cost of what every solution has."""
    matrix = _Matrix([], [], [], [], [])
    costs: list[Floats] = []
    shift = model.constant
    least = {v: float(u.min()) for v, u in model.unary.items()}
    tables = [
        (v, u, table, float(table.min())) for v, near in model.pairs.items() for u, table in near.items() if v < u
    ]
    base = shift + sum(least.values()) + sum(low for *_, low in tables)
    slack = incumbent.limit - base if math.isfinite(incumbent.value) else math.inf
    for v, u in model.unary.items():
        matrix.add(list(range(offset[v], offset[v] + len(u))), [1.0] * len(u), 1, 1)
        shift += least[v]
        costs.append(np.where(u - least[v] <= slack, u - least[v], np.inf))
    at = size
    for v, u, table, low in tables:
        shift += low
        allowed = np.isfinite(table) & (table - low <= slack)
        index = np.full(table.shape, -1)
        index[allowed] = np.arange(at, at + int(allowed.sum()))
        at += int(allowed.sum())
        costs.append(table[allowed] - low)
        for i in range(table.shape[0]):
            columns = index[i][index[i] >= 0].tolist()
            matrix.add([*columns, offset[v] + i], [1.0] * len(columns) + [-1.0], 0, 0)
        for j in range(table.shape[1]):
            columns = index[:, j][index[:, j] >= 0].tolist()
            matrix.add([*columns, offset[u] + j], [1.0] * len(columns) + [-1.0], 0, 0)
    return np.concatenate(costs), matrix, shift
