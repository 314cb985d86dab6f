"""Downsets of a directed acyclic graph: count them, list them, and find the pairs that can be a stage.

They are the states of Piper's dynamic programme. As in Piper, a state is what a pipeline's last stages hold. So it is
closed under successors, and states are grown from the end of the graph.
"""

from __future__ import annotations

# Compiled functions have no types.
# pyright: reportUnknownVariableType=false
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ...errors import LimitError
from .bits import Bits, bits, keys
from .downsets_kernel import stage_pairs

__all__ = ["Downsets", "alike", "count_downsets", "downsets"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Edges = Sequence[tuple[int, int]]
MOST_PAIRS = 40_000_000
"""Most candidate stages. Each takes 16 bytes here and about a hundred when it is priced, so this is 4 GB: a guess at
what a workstation can spare."""


@dataclass(frozen=True, eq=False)
class Downsets:
    """All states, smaller ones first. State 0 is empty, the last one holds all nodes.

    Parameters
    ----------
    members : ndarray of bool, shape (n_states, n_nodes)
        Which nodes each state holds.
    start, smaller : ndarray of int64
        ``smaller[start[s]:start[s + 1]]`` are the states that have one node less than state s.
    twins : tuple of (tuple of (tuple of int))
        Groups of branches that compute the same: the nodes of each branch, place by place. States that differ only by
        an exchange of such branches cost the same to complete, so one of them stands for all.
    """

    members: npt.NDArray[np.bool_]
    start: Ints
    smaller: Ints
    twins: tuple[tuple[tuple[int, ...], ...], ...] = ()

    @cached_property
    def number(self) -> dict[bytes, int]:
        """Number of the state with these members (as bytes)."""
        return {row.tobytes(): s for s, row in enumerate(self.members)}

    def sorting(self, state: int) -> list[int]:
        """Map each node of a state's representative to the node of the state itself."""
        turn = list(range(self.members.shape[1]))
        for group in self.twins:
            # Branches that are alike may change places: sorted by what the state has of them they give its
            # representative.
            filled = sorted(group, key=lambda nodes: (*self.members[state, list(nodes)], nodes))
            for place, real in zip(group, filled, strict=True):
                for a, b in zip(place, real, strict=True):
                    turn[a] = b
        return turn

    @cached_property
    def representative(self) -> Ints:
        """For each state, the state that stands for all those that differ from it only by an exchange of twins."""
        n = len(self.members)
        if not self.twins:
            return np.arange(n)
        turned = self.members.copy()
        for group in self.twins:
            part = self.members[:, np.array(group)]  # state, branch, place in the branch
            order = np.tile(np.arange(len(group)), (n, 1))
            for place in reversed(range(part.shape[2])):  # by the last place first: sorts are stable
                has = np.take_along_axis(part[:, :, place], order, axis=1)
                order = np.take_along_axis(order, np.argsort(has, axis=1, kind="stable"), axis=1)
            turned[:, np.array(group)] = np.take_along_axis(part, order[:, :, None], axis=1)
        _, first, place_of = np.unique(
            keys(np.concatenate([bits(self.members), bits(turned)])), return_index=True, return_inverse=True
        )
        return first[place_of.reshape(-1)[n:]].astype(np.int64)

    def pairs(
        self, seconds: Floats, work: Floats, degrees: Sequence[int], threshold: float, n_devices: int
    ) -> tuple[Ints, Ints]:
        """Pairs (low, high) of states that can be a stage of a pipeline under a threshold, sorted by their high state.

        The high states are representatives. A pair is left out only if it certainly is no such stage: if its
        computation alone exceeds the threshold, or it leaves too few devices for all other nodes.

        Parameters
        ----------
        seconds : ndarray, shape (n_nodes, n_degrees)
            Least seconds per sample of each node, for each data-parallel degree.
        work : ndarray, shape (n_nodes,)
            Least device-seconds per sample of each node.
        degrees : sequence of int
            Ascending.
        threshold : float
            Seconds per sample; inf gives all pairs.
        n_devices : int
            Number of devices of all stages together.

        Raises
        ------
        LimitError
            If there are more than `MOST_PAIRS`.
        """
        held = self.members.astype(np.float64)
        heads = np.unique(self.representative)[1:]  # without the empty state
        low, high = stage_pairs(
            self.start, self.smaller, heads, held @ seconds, held @ work, np.array(degrees, np.int64),
            # The margin is for rounding: a stage whose time equals the threshold must not be lost.
            threshold * (1 + 1e-9), n_devices, MOST_PAIRS,
        )  # fmt: skip
        if len(low) > MOST_PAIRS:
            raise LimitError(
                f"piper: our limit of {MOST_PAIRS:,} stages ended the search, so whether there is a plan is not known: "
                f"{len(self.members):,} downsets have more differences; use coarser units, or a planner that works "
                "along branches (graphpipe)"
            )
        return low, high


def downsets(
    n_nodes: int,
    edges: Edges,
    limit: int,
    what: str,
    twins: Sequence[tuple[tuple[int, ...], ...]] = (),
    option: str = "limit",
) -> Downsets:
    """List all downsets of a graph whose nodes are numbered in a topological order.

    Parameters
    ----------
    n_nodes : int
        Number of nodes.
    edges : sequence of (int, int)
        Pairs (from, to) with from < to.
    limit : int
        Most downsets that are listed.
    what : str
        The name of the graph's kind in messages.
    twins : sequence
        See `Downsets`.
    option : str
        Name of the option that sets the limit, for the message.

    Raises
    ------
    LimitError
        If there are more; the message says how many, as far as they were counted.
    """
    count, exact = count_downsets(n_nodes, edges, limit)
    if count > limit:
        said, enough = (f"{count:,}", str(count)) if exact else (f"more than {limit:,}", "…")
        raise LimitError(
            f"{what} has {said} downsets, which multiply with every parallel branch; our limit of {limit:,} ended the "
            f"search, so whether there is a plan is not known: raise it (-o {option}={enough}), use fewer or coarser "
            "units, or a planner that works along branches (graphpipe)"
        )
    words = max(1, -(-n_nodes // 64))
    one = np.zeros((n_nodes, words), np.uint64)  # each node as a set of its own, in bits
    for v in range(n_nodes):
        one[v, v // 64] = np.uint64(1) << np.uint64(v % 64)
    after = np.zeros((n_nodes, words), np.uint64)
    for a, b in edges:
        after[a] |= one[b]
    level = np.zeros((1, words), np.uint64)
    levels, links, before = list[Bits](), list[Ints](), 0
    while len(level):
        free = [np.flatnonzero(~(level & one[v] | after[v] & ~level).any(axis=1)) for v in range(n_nodes)]
        state = np.concatenate([*free, np.zeros(0, np.int64)])
        grown = np.concatenate([*(level[at] | one[v] for v, at in enumerate(free)), np.zeros((0, words), np.uint64)])
        turn = np.argsort(state, kind="stable")  # state by state, node by node
        state, grown = state[turn], grown[turn]
        _, first, place = np.unique(keys(grown), return_index=True, return_inverse=True)
        known = np.argsort(first)  # numbered in the order in which they were met
        number = np.empty(len(first), np.int64)
        number[known] = np.arange(len(first))
        links.append(np.stack([before + len(level) + number[place.reshape(-1)], before + state]))
        levels.append(level)
        before, level = before + len(level), grown[first[known]]
    found = np.concatenate(levels)
    members = np.unpackbits(found.view(np.uint8), axis=1, count=n_nodes, bitorder="little").view(bool)
    high, low = np.concatenate(links, axis=1)
    turn = np.lexsort((low, high))
    start = np.concatenate([[0], np.cumsum(np.bincount(high, minlength=len(found)))])
    return Downsets(members, start.astype(np.int64), low[turn], tuple(twins))


def count_downsets(n_nodes: int, edges: Edges, limit: int) -> tuple[int, bool]:
    """Count the downsets of a graph, the empty one and the whole graph among them.

    The counts of parts that are not ordered with respect to each other multiply. The counts of two parts of which one
    comes before all of the other add up, less one: both count the state between them. Any other part is counted one by
    one, up to the limit.

    Returns
    -------
    count : int
        The number, or a lower bound of it that is above the limit.
    exact : bool
        Whether it is exact.
    """
    before, after = _order(n_nodes, edges)

    def count(nodes: list[int]) -> tuple[int, bool]:
        if len(nodes) == 1:
            return 2, True
        mask = sum(1 << v for v in nodes)
        parts = _components(nodes, [(before[v] | after[v]) & mask for v in nodes])
        if len(parts) > 1:
            product, exact = 1, True
            for part in parts:
                each, known = count(part)
                product, exact = product * each, exact and known
            return product, exact
        seen = 0
        for k in range(1, len(nodes)):
            seen |= 1 << nodes[k - 1]
            if all(before[v] & seen == seen for v in nodes[k:]):
                (a, known), (b, also) = count(nodes[:k]), count(nodes[k:])
                return a + b - 1, known and also
        return _one_by_one(nodes, {v: after[v] & mask for v in nodes}, limit)

    return count(list(range(n_nodes)))


def alike(n_nodes: int, edges: Edges) -> list[list[list[int]]]:
    """Groups of parallel branches with equally many nodes, found by splitting the graph in series and in parallel."""
    before, after = _order(n_nodes, edges)
    found: list[list[list[int]]] = []

    def split(nodes: list[int]) -> None:
        mask = sum(1 << v for v in nodes)
        parts = _components(nodes, [(before[v] | after[v]) & mask for v in nodes])
        if len(parts) > 1:
            sizes: dict[int, list[list[int]]] = {}
            for part in parts:
                sizes.setdefault(len(part), []).append(part)
                split(part)
            found.extend(group for group in sizes.values() if len(group) > 1)
            return
        seen = 0
        for k in range(1, len(nodes)):
            seen |= 1 << nodes[k - 1]
            if all(before[v] & seen == seen for v in nodes[k:]):
                split(nodes[:k])
                split(nodes[k:])
                return

    split(list(range(n_nodes)))
    return found


def _order(n_nodes: int, edges: Edges) -> tuple[list[int], list[int]]:
    """The nodes before and after every node, as bits."""
    before, after = [0] * n_nodes, [0] * n_nodes
    for a, b in sorted(edges, key=lambda e: e[1]):  # all that come before `a` are known
        before[b] |= before[a] | 1 << a
    for a, b in sorted(edges, key=lambda e: -e[0]):
        after[a] |= after[b] | 1 << b
    return before, after


def _components(nodes: list[int], related: list[int]) -> list[list[int]]:
    """Split nodes into parts that have no order between them."""
    left = dict(zip(nodes, related, strict=True))
    parts: list[list[int]] = []
    while left:
        stack, part = [next(iter(left))], set[int]()
        while stack:
            v = stack.pop()
            if v in left:
                near = left.pop(v)
                part.add(v)
                stack += [u for u in nodes if near >> u & 1 and u in left]
        parts.append(sorted(part))
    return parts


def _one_by_one(nodes: list[int], after: dict[int, int], limit: int) -> tuple[int, bool]:
    seen, stack = {0}, [0]
    while stack:
        state = stack.pop()
        for v in nodes:
            if not state >> v & 1 and after[v] & ~state == 0 and (more := state | 1 << v) not in seen:
                seen.add(more)
                stack.append(more)
                if len(seen) > limit:
                    return len(seen), False
    return len(seen), True
