"""`Model`: the auto-sharding ILP as a pairwise cost model with memory rows, without followers and constants.

Every leader is a node; its followers' costs and bytes are part of its own. Alias pairs and infinite costs are infinite
entries of the pair tables.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NewType

import numpy as np
import numpy.typing as npt

from .problem import Floats, ShardingProblem

__all__ = ["Model", "Proven", "build_model"]

Proven = NewType("Proven", float)
"""A bound that holds, whatever is chosen, to within rounding. Only these may prune, close a gap or say that nothing
fits. Guesses, which steer a search, are plain floats; pyright tells the two apart."""

Ints = npt.NDArray[np.int64]
Folded = tuple[int, Floats, list[tuple[int, Ints, Floats]]]


@dataclass(eq=False, slots=True)
class Model:
    """What is left to decide; presolve shrinks it in place.

    Parameters
    ----------
    unary : dict of int to ndarray, shape (k,)
        Cost of each strategy of each node that is left.
    active : dict of int to ndarray, shape (k,)
        Numbers of these strategies in the problem.
    pairs : dict of int to dict of int to ndarray, shape (k_v, k_u)
        Cost of the strategies of two nodes together, stored both ways round.
    needs : dict of int to ndarray, shape (tensors, k)
        Bytes of those of a node's tensors whose size depends on the strategy, where that can matter.
    memory : dict of int to ndarray, shape (rows, k)
        Bytes in each memory row above those of the node's smallest strategy; nodes without any are left out. Rows are
        the time steps that have been looked at; `MemoryRows` adds them as they are violated.
    room : ndarray, shape (rows,)
        Bytes that the rows can still hold.
    steps : ndarray of int64, shape (rows,)
        Time step of each row.
    constant : float
        Cost of what was decided.
    eliminated : list of (int, ndarray, list of (int, ndarray, ndarray))
        Nodes that were folded into their neighbours: cost, and for each of these its active strategies then and the
        pair table. Taken from the last to the first, each has its best strategy by the choice of its neighbours.
    """

    unary: dict[int, Floats]
    active: dict[int, Ints]
    pairs: dict[int, dict[int, Floats]]
    needs: dict[int, Floats]
    memory: dict[int, Floats]
    room: Floats
    steps: Ints
    constant: float = 0.0
    eliminated: list[Folded] = field(default_factory=lambda: list[Folded]())

    @property
    def n_strategies(self) -> int:
        """Strategies of all nodes left."""
        return sum(len(u) for u in self.unary.values())

    @property
    def n_edges(self) -> int:
        """Pairs of nodes with a cost."""
        return sum(len(near) for near in self.pairs.values()) // 2

    @property
    def ceiling(self) -> Proven:
        """No choice of finite cost costs more; −inf if there is no such choice."""
        tables = [t for v, near in self.pairs.items() for u, t in near.items() if v < u]
        most = [float(np.where(np.isfinite(t), t, -np.inf).max()) for t in (*self.unary.values(), *tables)]
        if -math.inf in most:
            return Proven(-math.inf)
        # The margin keeps it a bound whatever the order in which a choice's costs are added up.
        return Proven(self.constant + sum(most) + 1e-9 * (abs(self.constant) + sum(map(abs, most))))

    def add_pair(self, v: int, u: int, table: Floats) -> None:
        """Add costs to a pair of different nodes."""
        if u in self.pairs[v]:
            table = self.pairs[v][u] + table
        self.pairs[v][u] = table
        self.pairs[u][v] = table.T

    def drop_pair(self, v: int, u: int) -> None:
        """Forget a pair."""
        del self.pairs[v][u], self.pairs[u][v]

    def keep(self, node: int, kept: npt.NDArray[np.bool_]) -> None:
        """Drop the other strategies of a node. What all that are left need is taken from the rows' room."""
        self.unary[node] = self.unary[node][kept]
        self.active[node] = self.active[node][kept]
        for other, table in self.pairs[node].items():
            self.pairs[node][other] = table[kept]
            self.pairs[other][node] = self.pairs[node][other].T
        if node in self.needs:
            needs = self.needs[node][:, kept]
            needs = needs[(needs != needs[:, :1]).any(axis=1)]
            if needs.size:
                self.needs[node] = needs
            else:
                del self.needs[node]
        if node in self.memory:
            needs = self.memory[node][:, kept]
            least = needs.min(axis=1)
            self.room = self.room - least
            needs = needs - least[:, None]
            if needs.any():
                self.memory[node] = needs
            else:
                del self.memory[node]

    def value(self, choice: dict[int, int]) -> float:
        """Cost of a choice (position among the active strategies) for the nodes left."""
        total = self.constant + sum(float(self.unary[v][choice[v]]) for v in self.unary)
        for v, near in self.pairs.items():
            total += sum(float(table[choice[v], choice[u]]) for u, table in near.items() if v < u)
        return total

    def expand(self, choice: dict[int, int]) -> dict[int, int]:
        """Strategy of the problem for every leader: those eliminated take their best."""
        full = {node: int(self.active[node][at]) for node, at in choice.items()}
        for node, cost, near in reversed(self.eliminated):
            total = cost
            for other, active, table in near:
                total = total + table[:, np.searchsorted(active, full[other])]
            full[node] = int(self.active[node][np.argmin(total)])
        return full

    def copy(self) -> Model:
        """One that can be shrunk without touching this one. Tables are shared; they are replaced, never written."""
        pairs = {v: dict(near) for v, near in self.pairs.items()}
        return Model(
            dict(self.unary), dict(self.active), pairs, dict(self.needs), dict(self.memory), self.room, self.steps,
            self.constant, list(self.eliminated),
        )  # fmt: skip


def build_model(problem: ShardingProblem) -> Model:
    """Merge followers and collect pairs. There are no memory rows yet."""
    leader = [problem.leader(v) for v in range(problem.n_nodes)]
    nodes = [v for v in range(problem.n_nodes) if leader[v] == v]
    unary = {v: np.zeros(problem.s_len[v]) for v in nodes}
    for v in range(problem.n_nodes):
        unary[leader[v]] = unary[leader[v]] + problem.cost[v]
    active = {v: np.arange(problem.s_len[v]) for v in nodes}
    model = Model(unary, active, {v: {} for v in nodes}, {}, {}, np.empty(0), np.empty(0, np.int64))
    tables = [*problem.resharding, *(np.where(bad, np.inf, 0.0) for bad in problem.forbidden)]
    for (v, u), table in zip([*problem.edges, *problem.aliases], tables, strict=True):
        a, b = leader[v], leader[u]
        if a == b:
            unary[a] = unary[a] + np.diagonal(table)
        else:
            model.add_pair(a, b, table)
    return model
