r"""The auto-sharding ILP for HiGHS, with linearised edges.

An edge has a variable for each pair of strategies. They are tied to the nodes as the marginals of a distribution:

.. math:: \sum_j e_{ij} = s_{v,i}, \qquad \sum_i e_{ij} = s_{u,j} .

This is tighter than the usual e ≥ s_v + s_u − 1, and with one-hot nodes the edges are integral by themselves, so only
the nodes are integer variables.

The solver was picked by its answers. SCIP 10.0.0 (ortools 9.15) presolves some of these ILPs, with a matrix of 0 and ±1
and nothing degenerate, to a wrong optimum that it calls proven (tests/planners/alpa/solver/test_sharding.py keeps one).
Both take about the same time on what presolve leaves of a 24-layer GPT with memory; CP-SAT does not solve it.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from .memory_rows import MemoryRows
from .model import Model, Proven
from .problem import Floats
from .search import Incumbent

__all__ = ["solve_milp"]

GAP = 1e-10
"""Relative gap at which the solver stops: below `search.CLOSED`, so that what it calls optimal counts as closed."""
RANGE = 1e4
"""Largest cost that the solver is given, once a solution is known. Its tolerances are absolute (1e-6), so costs are
scaled down to this range: large enough to tell costs apart, small enough that its arithmetic stays exact. A guess."""
TOLERANCE = 1e-6
"""How much the solver's objective and rows may be off: the default of HiGHS' `mip_feasibility_tolerance`."""
INFEASIBLE, UNDECIDED = 2, 4  # statuses of scipy.optimize.milp; the second, too, when presolve cannot tell them apart


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


def solve_milp(model: Model, rows: MemoryRows, incumbent: Incumbent, deadline: float) -> tuple[Proven, list[int]]:
    """Solve what is left: (lower bound on it, time steps that its solution overfills and that are not rows yet).

    Solutions that fit go to the incumbent. A model without any solution has the bound inf.
    """
    if not model.unary:
        full_choice = model.expand({})
        incumbent.offer(full_choice, rows)
        # Eight rows at a time, here and below: enough to converge in few rounds, few enough to keep the ILP small.
        new = [step for step in rows.worst(rows.usage(full_choice), 8).tolist() if step not in model.steps]
        return Proven(model.constant if new or rows.fits(full_choice) else math.inf), new
    offset: dict[int, int] = {}
    size = 0
    for node, cost in model.unary.items():
        offset[node] = size
        size += len(cost)
    cuts: list[tuple[list[int], float]] = []
    best = Proven(-math.inf)
    cost, matrix, shift, scale = _scaled(model, incumbent, offset, size)
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return best, []
        full = _Matrix(list(matrix.data), list(matrix.row), list(matrix.column), list(matrix.low), list(matrix.high))
        for at, room in enumerate(model.room):
            columns = [offset[v] + i for v, needs in model.memory.items() for i in np.flatnonzero(needs[at]).tolist()]
            values = [x for needs in model.memory.values() for x in needs[at][needs[at] > 0].tolist()]
            # bytes of 1e10 beside costs of 1 would defeat its tolerances
            unit = max([abs(float(room)), *values]) or 1.0
            full.add(columns, [x / unit for x in values], -math.inf, float(room) / unit)
        for columns, high in cuts:
            full.add(columns, [1.0] * len(columns), -math.inf, high)
        values, bound = _highs(cost / scale, size, full, left)
        best = max(best, Proven((bound - TOLERANCE) * scale + shift))
        if values is None:
            return best, []
        choice = {v: int(np.argmax(values[offset[v] : offset[v] + len(model.unary[v])])) for v in model.unary}
        expanded = model.expand(choice)
        incumbent.offer(expanded, rows)
        usage = rows.usage(expanded)
        broken = rows.worst(usage, 8).tolist()
        new = [step for step in broken if step not in model.steps]
        # A solution far below the largest cost lets many variables be dropped and the rest scaled up: worth another
        # run only if the scale falls to a tenth.
        if not broken and incumbent.value - shift < 0.1 * RANGE * scale:
            before = scale
            cost, matrix, shift, scale = _scaled(model, incumbent, offset, size)
            if scale < 0.1 * before:
                continue  # large costs hid what small ones differ by; now that a solution is known they are left out
        if not broken or new:
            return best, new
        for step in broken:
            # Broken by less than the solver's tolerance: forbid this very filling of the row.
            at = int(np.flatnonzero(model.steps == step)[0])
            filled = [v for v, needs in model.memory.items() if needs[at].any()]
            cuts.append(([offset[v] + choice[v] for v in filled], len(filled) - 1.0))


def _highs(cost: Floats, n_whole: int, matrix: _Matrix, seconds: float) -> tuple[Floats | None, float]:
    """Best values of the variables, None if there are none yet, and the lower bound, inf if there can be none."""
    from scipy import sparse
    from scipy.optimize import Bounds, LinearConstraint, milp

    usable = np.isfinite(cost)
    table = sparse.csr_array((matrix.data, (matrix.row, matrix.column)), shape=(len(matrix.low), len(cost)))
    bounds = Bounds(0, usable.astype(float))  # pyright: ignore[reportArgumentType]  (scipy says float, takes arrays)
    rows = LinearConstraint(table, matrix.low, matrix.high)  # pyright: ignore[reportArgumentType]
    whole = (np.arange(len(cost)) < n_whole).astype(np.int64)
    for presolve in (True, False):
        options = {"mip_rel_gap": GAP, "time_limit": seconds, "presolve": presolve}
        answer = milp(np.where(usable, cost, 0.0), integrality=whole, bounds=bounds, constraints=rows, options=options)
        if answer.status != UNDECIDED or answer.x is not None:
            break
    if answer.status == INFEASIBLE:
        return None, math.inf
    bound = -math.inf if answer.mip_dual_bound is None else float(answer.mip_dual_bound)
    return (None if answer.x is None else np.asarray(answer.x)), bound


def _scaled(
    model: Model, incumbent: Incumbent, offset: dict[int, int], size: int
) -> tuple[Floats, _Matrix, float, float]:
    """What `_edges` returns, and the cost that is 1 to the solver."""
    cost, matrix, shift = _edges(model, incumbent, offset, size)
    most = float(cost[np.isfinite(cost)].max(initial=0.0))
    if math.isfinite(incumbent.value):
        most = min(most, incumbent.value - shift)
    return cost, matrix, shift, most / RANGE if most > 0 else 1.0


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
