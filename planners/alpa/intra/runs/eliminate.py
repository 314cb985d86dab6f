"""Exact elimination of a segment's inner nodes, for several prices of memory at once.

The cost of a choice is a sum of factors over few nodes each. Eliminating a node adds the factors that have it and keeps
the least over its strategies, a new factor over its neighbours. What is left is a table over the nodes that are kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...solver.problem import Floats

__all__ = ["Eliminated", "TooWideError", "eliminate"]

MOST_ENTRIES = 30_000_000
"""Most entries of one table, which is 240 MB: a guess at what a workstation can spare for each worker."""

Factor = tuple[tuple[int, ...], Floats]
"""Nodes, and costs of their strategies together: [price (or 1), node, node, …]."""


class TooWideError(Exception):
    """What is to be tabulated has too many combinations of strategies."""


@dataclass(frozen=True, eq=False, slots=True)
class Eliminated:
    """What elimination has left.

    Parameters
    ----------
    kept : tuple of int
        Nodes that are left.
    table : ndarray, shape (prices, *strategies of the kept nodes)
        The least cost of any choice with these strategies.
    trail : list of (int, list of Factor)
        Eliminated nodes in their order, and the factors that had them.
    """

    kept: tuple[int, ...]
    table: Floats
    trail: list[tuple[int, list[Factor]]]

    def choice(self, price: int, states: Sequence[int]) -> dict[int, int]:
        """The best strategy of every node, for strategies of the kept ones."""
        chosen = dict(zip(self.kept, states, strict=True))
        for node, factors in reversed(self.trail):
            total: Floats | float = 0.0
            for axes, values in factors:
                at = tuple(slice(None) if x == node else chosen[x] for x in axes)
                total = total + values[(price if len(values) > 1 else 0, *at)]
            chosen[node] = int(np.argmin(total))
        return chosen


def eliminate(
    unary: Mapping[int, Floats], pairs: Mapping[tuple[int, int], Floats], kept: Sequence[int], prices: int
) -> Eliminated:
    """Minimise over all nodes but the kept ones.

    Parameters
    ----------
    unary : mapping of int to ndarray, shape (prices, k)
        Cost of the strategies of each node.
    pairs : mapping of (int, int) to ndarray, shape (k, k)
        Cost of the strategies of two nodes together.
    kept : sequence of int
        Nodes that stay, in the order of the table's axes.
    prices : int
        Number of memory prices that are solved at once.

    Raises
    ------
    TooWideError
        If a table would have more than `MOST_ENTRIES`.
    """
    sizes = {v: u.shape[1] for v, u in unary.items()}
    factors: dict[int, list[Factor]] = {v: [((v,), u)] for v, u in unary.items()}
    for (v, u), table in pairs.items():
        factor: Factor = ((v, u), table[None])
        factors[v].append(factor)
        factors[u].append(factor)
    trail: list[tuple[int, list[Factor]]] = []
    left = set(unary) - set(kept)

    def near(v: int) -> tuple[int, ...]:
        return tuple(dict.fromkeys(x for axes, _ in factors[v] for x in axes if x != v))

    weight = {v: math.prod(sizes[u] for u in near(v)) * sizes[v] for v in left}
    if prices * math.prod(sizes[v] for v in kept) > MOST_ENTRIES:
        raise TooWideError
    while left:
        # The node with the smallest table goes first (the min-weight heuristic of tree decompositions); ties by
        # number, so that the order is the same in every run.
        v = min(left, key=lambda x: (weight[x], x))
        if prices * weight[v] > MOST_ENTRIES:
            raise TooWideError
        left.discard(v)
        axes = near(v)
        total = _sum(factors[v], (v, *axes), sizes)
        new: Factor = (axes, total.min(axis=1))
        trail.append((v, factors[v]))
        gone = {id(f) for f in factors[v]}
        for u in axes:
            factors[u] = [f for f in factors[u] if id(f) not in gone]
            factors[u].append(new)
        if not axes:  # a part of the graph that touches nothing kept
            factors.setdefault(-1, []).append(new)
        del factors[v]
        for u in axes:
            if u in left:
                weight[u] = math.prod(sizes[w] for w in near(u)) * sizes[u]
    rest = {id(f): f for found in factors.values() for f in found}
    table = np.broadcast_to(_sum(list(rest.values()), tuple(kept), sizes), (prices, *(sizes[v] for v in kept)))
    return Eliminated(tuple(kept), np.ascontiguousarray(table), trail)


def _sum(factors: Sequence[Factor], axes: tuple[int, ...], sizes: Mapping[int, int]) -> Floats:
    """Sum of factors as one array over axes."""
    place = {x: at for at, x in enumerate(axes)}
    total: Floats | None = None
    # Small factors first, so that few additions touch the whole table.
    for mine, values in sorted(factors, key=lambda f: f[1].size):
        # Axes in the table's order: then a reshape alone lines the factor up with it.
        order = sorted(range(len(mine)), key=lambda at: place[mine[at]])
        turned = values.transpose(0, *(at + 1 for at in order))
        shape = [1] * len(axes)
        for x in mine:
            shape[place[x]] = sizes[x]
        shaped = turned.reshape(len(values), *shape)
        total = shaped if total is None else total + shaped
    assert total is not None  # every node has its own costs
    return total
