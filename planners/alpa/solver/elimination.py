"""Exact minimisation of a pairwise cost model by eliminating nodes one by one (min-sum on a tree decomposition).

Eliminating a node builds a table over it and those of its neighbours that are left, and keeps the least over its own
strategies: a new cost on the neighbours. The work is the sum of the table sizes, which the order decides: the node
with the smallest table goes first. Graphs of models are long and narrow, so the tables stay small.

Going back through the tables gives the best choice, and also the *min-marginal* of each strategy: the least cost of any
choice that has it.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .model import Model
from .problem import Floats

__all__ = ["Elimination", "Order", "elimination_order"]


@dataclass(frozen=True, slots=True)
class Order:
    """Nodes in order of elimination.

    Parameters
    ----------
    nodes : tuple of int
        The nodes in the order in which they are eliminated.
    near : tuple of tuple of int
        The neighbours that each has when it goes, in the order in which they go.
    entries : int
        Table entries in all; the work of one pass.
    largest : int
        Entries of the largest table.
    """

    nodes: tuple[int, ...]
    near: tuple[tuple[int, ...], ...]
    entries: int
    largest: int


def elimination_order(model: Model, limit: int) -> Order | None:
    """Smallest table first; None once the tables exceed `limit` entries in all."""
    near = {v: set(others) for v, others in model.pairs.items()}
    size = {v: len(cost) for v, cost in model.unary.items()}

    def weight(v: int) -> int:
        total = size[v]
        for u in near[v]:
            total *= size[u]
        return total

    heap = [(weight(v), v) for v in near]
    heapq.heapify(heap)
    current = {v: w for w, v in heap}
    nodes: list[int] = []
    left: list[set[int]] = []
    entries = largest = 0
    while heap:
        w, v = heapq.heappop(heap)
        if v not in near or current[v] != w:
            continue
        entries, largest = entries + w, max(largest, w)
        if entries > limit:
            return None
        around = near.pop(v)
        nodes.append(v)
        left.append(around)
        for u in around:
            near[u] |= around
            near[u] -= {u, v}
        for u in around:
            current[u] = weight(u)
            heapq.heappush(heap, (current[u], u))
    place = {v: at for at, v in enumerate(nodes)}
    return Order(tuple(nodes), tuple(tuple(sorted(a, key=place.__getitem__)) for a in left), entries, largest)


class Elimination:
    """Passes over a model in a fixed order, for any costs of the single nodes.

    Parameters
    ----------
    model : Model
        The model; its pair tables are read once, now.
    order : Order
        From `elimination_order` of this model.
    """

    def __init__(self, model: Model, order: Order) -> None:
        self.order = order
        place = {v: at for at, v in enumerate(order.nodes)}
        self._near = [tuple(place[u] for u in near) for near in order.near]
        self._pairs: list[list[Floats]] = []
        self._sent: list[tuple[int, tuple[int, ...]]] = []
        for at, (v, near) in enumerate(zip(order.nodes, self._near, strict=True)):
            tables: list[Floats] = []
            for axis, u in enumerate(near):
                table = model.pairs[v].get(order.nodes[u])
                if table is not None:
                    shape = [1] * (len(near) + 1)
                    shape[0], shape[axis + 1] = table.shape
                    tables.append(table.reshape(shape))
            self._pairs.append(tables)
            # The new cost joins the table of the first neighbour to go, whose axes are itself and its neighbours.
            if near:
                target = near[0]
                axes = (target, *self._near[target]) if target > at else ()
                self._sent.append((target, axes))
            else:
                self._sent.append((-1, ()))
        self._axes = [(at, *near) for at, near in enumerate(self._near)]
        self._size = [len(model.unary[v]) for v in order.nodes]
        self._tables: list[Floats] = []
        self._message: list[Floats | None] = []

    def minimise(self, unary: Mapping[int, Floats]) -> tuple[float, dict[int, int]]:
        """The least total cost, and the choice that has it. An infinite one means that there is none."""
        nodes = self.order.nodes
        waiting: list[list[Floats]] = [[] for _ in nodes]
        self._tables, self._message = [], []
        value = 0.0
        for at, v in enumerate(nodes):
            axes = self._axes[at]
            table = np.broadcast_to(
                unary[v].reshape((-1,) + (1,) * (len(axes) - 1)), [self._size[x] for x in axes]
            ).copy()
            for other in self._pairs[at]:
                table += other
            for other in waiting[at]:
                table += other
            waiting[at] = []
            self._tables.append(table)
            least = table.min(axis=0)
            target, target_axes = self._sent[at]
            if target < 0:
                value += float(least)
                self._message.append(None)
            else:
                mine = set(axes[1:])
                shaped = least.reshape([self._size[x] if x in mine else 1 for x in target_axes])
                waiting[target].append(shaped)
                self._message.append(shaped)
        chosen: dict[int, int] = {}
        for at in range(len(nodes) - 1, -1, -1):
            chosen[at] = int(np.argmin(self._tables[at][(slice(None), *(chosen[u] for u in self._near[at]))]))
        return value, {nodes[at]: choice for at, choice in chosen.items()}

    def min_marginals(self) -> dict[int, Floats]:
        """For every strategy the least total cost with it, at the costs of the last `minimise`."""
        nodes = self.order.nodes
        belief: list[Floats] = [np.empty(0)] * len(nodes)
        roots = [float(self._tables[at].min()) for at in range(len(nodes)) if self._sent[at][0] < 0]
        total = sum(roots)
        result: dict[int, Floats] = {}
        for at in range(len(nodes) - 1, -1, -1):
            table = self._tables[at]
            target, target_axes = self._sent[at]
            if target >= 0:
                mine = set(self._axes[at][1:])
                drop = tuple(i for i, x in enumerate(target_axes) if x not in mine)
                message = self._message[at]
                assert message is not None  # it was sent to the target
                above = belief[target].min(axis=drop, keepdims=True)
                with np.errstate(invalid="ignore"):
                    outside = np.where(np.isfinite(message), above - message, np.inf)
                table = table + outside.reshape([1, *(self._size[x] for x in self._axes[at][1:])])
            else:
                table = table + (total - float(table.min()))
            belief[at] = table
            result[nodes[at]] = table.reshape(len(table), -1).min(axis=1)
        return result
