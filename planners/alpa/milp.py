r"""The auto-sharding ILP for HiGHS, with linearised edges.

An edge has a variable for each pair of strategies. They are tied to the nodes as the marginals of a distribution:

.. math:: \sum_j e_{ij} = s_{v,i}, \qquad \sum_i e_{ij} = s_{u,j} .

This is tighter than the usual e ≥ s_v + s_u − 1, and with one-hot nodes the edges are integral by themselves, so only
the nodes are integer variables.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from .memory_rows import MemoryRows
from .model import Model
from .problem import Floats
from .search import Incumbent

__all__ = ["solve_milp"]


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
    offset = {}
    size = 0
    for node, cost in model.unary.items():
        offset[node] = size
        size += len(cost)
    cost, matrix, shift = _edges(model, incumbent, offset, size)
    # HiGHS stops at a gap of 1e-6 whatever the scale: make the objective large enough for that to be nothing.
    scale = (
        incumbent.value - shift if math.isfinite(incumbent.value) else float(cost[np.isfinite(cost)].max(initial=0.0))
    ) / 1e4
    scale = scale if scale > 0 else 1.0
    whole = np.zeros(len(cost))
    whole[:size] = 1
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
            full.add(columns, [x / unit for x in values], -np.inf, float(room) / unit)
        for columns, high in cuts:
            full.add(columns, [1.0] * len(columns), -np.inf, high)
        answer = milp(
            np.where(np.isfinite(cost), cost, 0.0) / scale,
            integrality=whole,
            bounds=Bounds(0, np.isfinite(cost).astype(float)),  # pyright: ignore[reportArgumentType]
            constraints=LinearConstraint(
                sparse.csc_array((full.data, (full.row, full.column)), shape=(len(full.low), len(cost))),
                full.low,  # pyright: ignore[reportArgumentType]
                full.high,  # pyright: ignore[reportArgumentType]
            ),
            options={"time_limit": max(left, 0.01), "mip_rel_gap": 1e-10},
        )
        if answer.status == 2:
            return math.inf, []
        if answer.mip_dual_bound is not None:
            best = max(best, float(answer.mip_dual_bound) * scale + shift)
        if answer.x is None:
            return best, []
        choice = {v: int(np.argmax(answer.x[offset[v] : offset[v] + len(model.unary[v])])) for v in model.unary}
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
