"""`ShardingProblem`: the auto-sharding ILP in the serialised form in which Alpa's compiler pass hands it to its solver.

Lists may be nested (one list per node, edge, alias pair or time step) or flat, one after the other, as the compiler
writes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ....reprs import Shown

__all__ = ["Floats", "ShardingProblem"]

Floats = npt.NDArray[np.float64]
FIELDS = ("N", "M", "s_len", "s_follow", "E", "A", "L", "c", "d", "m", "r", "v")


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class ShardingProblem(Shown):
    """Minimise Σ c + d + r over one strategy per node, within the memory at every time step (Alpa, Eq. 1).

    Parameters
    ----------
    n_nodes : int
        N, the number of nodes.
    memory_bytes : float
        M, bytes per device; ≤ 0: no bound.
    s_len : tuple of int
        Strategies of each node.
    follow : tuple of int
        −1, or the node whose choice this one shares.
    edges, aliases : tuple of (int, int)
        Pairs (v, u) of nodes.
    live : tuple of tuple of int
        Nodes whose memory is held, for each time step.
    cost, memory : tuple of ndarray
        Per node: c + d, and bytes, of each strategy. A cost of inf forbids the strategy.
    resharding : tuple of ndarray, shape (k_v, k_u)
        Per edge. inf forbids the pair.
    forbidden : tuple of ndarray of bool, shape (k_v, k_u)
        Per alias pair: v > 0.5.

    Raises
    ------
    InputError
        If lengths, shapes, indices or values are not as said.
    """

    n_nodes: int
    memory_bytes: float
    s_len: tuple[int, ...]
    follow: tuple[int, ...]
    edges: tuple[tuple[int, int], ...]
    aliases: tuple[tuple[int, int], ...]
    live: tuple[tuple[int, ...], ...]
    cost: tuple[Floats, ...]
    memory: tuple[Floats, ...]
    resharding: tuple[Floats, ...]
    forbidden: tuple[npt.NDArray[np.bool_], ...]

    def __post_init__(self) -> None:
        n = self.n_nodes
        if n < 1:
            raise InputError(f"N must be at least 1 (got {n})")
        if np.isnan(self.memory_bytes):
            raise InputError("M is NaN; use 0 for no bound")
        for name, values in (("s_len", self.s_len), ("s_follow", self.follow)):
            if len(values) != n:
                raise InputError(f"{name}: expected one entry for each of {n} nodes (got {len(values)})")
        for node, (size, leader) in enumerate(zip(self.s_len, self.follow, strict=True)):
            if size < 1:
                raise InputError(f"s_len[{node}]: a node needs at least 1 strategy (got {size})")
            if leader < -1 or leader >= n or leader == node:
                raise InputError(f"s_follow[{node}]: expected −1 or another of {n} nodes (got {leader})")
            if leader >= 0 and self.follow[leader] >= 0:
                raise InputError(
                    f"s_follow[{node}]: node {leader} follows node {self.follow[leader]} itself; point to that one"
                )
            if leader >= 0 and self.s_len[leader] != size:
                raise InputError(
                    f"s_follow[{node}]: node {leader} has {self.s_len[leader]} strategies, its follower {size};"
                    " they share their choice"
                )
        for name, pairs in (("E", self.edges), ("A", self.aliases)):
            for at, pair in enumerate(pairs):
                if min(pair) < 0 or max(pair) >= n:
                    raise InputError(f"{name}[{at}]: expected nodes 0 to {n - 1} (got {pair})")
        for step, nodes in enumerate(self.live):
            if nodes and (min(nodes) < 0 or max(nodes) >= n):
                raise InputError(f"L[{step}]: expected nodes 0 to {n - 1} (got {min(nodes)} to {max(nodes)})")
            if len(set(nodes)) != len(nodes):
                raise InputError(f"L[{step}]: a node is live once at most (got one twice)")
        _check("c + d", self.cost, [(k,) for k in self.s_len], signed=True)
        _check("m", self.memory, [(k,) for k in self.s_len])
        _check("r", self.resharding, [(self.s_len[v], self.s_len[u]) for v, u in self.edges], signed=True)

    @classmethod
    def of(cls, instance: ShardingProblem | Mapping[str, Any]) -> ShardingProblem:
        """Read the fields N, M, s_len, s_follow, E, A, L, c, d, m, r, v. Others are not looked at.

        Raises
        ------
        InputError
            If a field is missing or cannot be read; the message names it and the entry.
        """
        if isinstance(instance, ShardingProblem):
            return instance
        missing = [name for name in FIELDS if name not in instance]
        if missing:
            raise InputError(f"instance: missing {', '.join(missing)}; expected {', '.join(FIELDS)}")
        n = _whole(instance["N"], "N")
        if n < 1:
            raise InputError(f"N must be at least 1 (got {n})")
        s_len = _wholes(instance["s_len"], "s_len")
        edges, aliases = _pairs(instance["E"], "E"), _pairs(instance["A"], "A")
        for name, pairs in (("E", edges), ("A", aliases)):
            for at, pair in enumerate(pairs):
                if min(pair) < 0 or max(pair) >= len(s_len):
                    raise InputError(f"{name}[{at}]: expected nodes 0 to {len(s_len) - 1} (got {pair})")
        if min(s_len, default=1) < 1:
            at = int(np.argmin(s_len))
            raise InputError(f"s_len[{at}]: a node needs at least 1 strategy (got {s_len[at]})")
        nodes = [(k,) for k in s_len]
        compute, communication = (_arrays(instance[name], name, nodes) for name in "cd")
        for name, arrays in (("c", compute), ("d", communication)):
            _check(name, arrays, nodes, signed=True)
        alias = _arrays(instance["v"], "v", [(s_len[v], s_len[u]) for v, u in aliases])
        _check("v", alias, [(s_len[v], s_len[u]) for v, u in aliases])
        return cls(
            n,
            _number(instance["M"], "M"),
            s_len,
            _wholes(instance["s_follow"], "s_follow"),
            edges,
            aliases,
            _live(instance["L"], n),
            tuple(a + b for a, b in zip(compute, communication, strict=True)),
            _arrays(instance["m"], "m", nodes),
            _arrays(instance["r"], "r", [(s_len[v], s_len[u]) for v, u in edges]),
            tuple(a > 0.5 for a in alias),
        )

    def leader(self, node: int) -> int:
        """The node whose choice decides this one's."""
        return node if self.follow[node] < 0 else self.follow[node]

    def value(self, choice: Sequence[int]) -> float:
        """Objective of a strategy per node: Σ c + d + r. Neither memory nor aliases are looked at."""
        nodes = sum(float(self.cost[v][choice[v]]) for v in range(self.n_nodes))
        pairs = zip(self.edges, self.resharding, strict=True)
        return nodes + sum(float(r[choice[v], choice[u]]) for (v, u), r in pairs)

    def magnitude(self, choice: Sequence[int]) -> float:
        """Σ |c + d| + |r| of a choice, what rounding is measured by."""
        nodes = sum(abs(float(self.cost[v][choice[v]])) for v in range(self.n_nodes))
        pairs = zip(self.edges, self.resharding, strict=True)
        return nodes + sum(abs(float(r[choice[v], choice[u]])) for (v, u), r in pairs)

    def violation(self, choice: Sequence[int]) -> str | None:
        """The first rule that a choice breaks, in words; None if it is a solution."""
        for v in range(self.n_nodes):
            if not 0 <= choice[v] < self.s_len[v]:
                return f"node {v} has no strategy {choice[v]}"
            if choice[v] != choice[self.leader(v)]:
                return f"node {v} does not follow node {self.leader(v)}"
        for (v, u), bad in zip(self.aliases, self.forbidden, strict=True):
            if bad[choice[v], choice[u]]:
                return f"nodes {v} and {u} are aliases and must not be {choice[v]} and {choice[u]}"
        if not np.isfinite(self.value(choice)):
            return "its cost is infinite"
        for step, nodes in enumerate(self.live):
            used = sum(float(self.memory[v][choice[v]]) for v in nodes)
            # The margin is for sums in another order.
            if 0 < self.memory_bytes < used * (1 - 1e-12):
                return f"time step {step} takes {used:.6g} bytes of {self.memory_bytes:.6g}"
        return None


def _check(name: str, arrays: Sequence[Floats], shapes: Sequence[tuple[int, ...]], signed: bool = False) -> None:
    if len(arrays) != len(shapes):
        raise InputError(f"{name}: expected {len(shapes)} entries (got {len(arrays)})")
    for at, (array, shape) in enumerate(zip(arrays, shapes, strict=True)):
        if array.shape != shape:
            raise InputError(f"{name}[{at}]: expected shape {shape} (got {array.shape})")
        if np.isnan(array).any():
            raise InputError(f"{name}[{at}] holds NaN")
        if not signed and not (np.isfinite(array).all() and (array >= 0).all()):
            raise InputError(f"{name}[{at}]: expected finite values ≥ 0 (got {array.min():g} to {array.max():g})")
        if signed and (array == -np.inf).any():
            raise InputError(f"{name}[{at}]: a cost of −inf makes no sense; use inf to forbid")


def _number(value: Any, name: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name}: expected a number (got {value!r})") from None


def _whole(value: Any, name: str) -> int:
    number = _number(value, name)
    if number % 1 != 0:
        raise InputError(f"{name}: expected a whole number (got {value!r})")
    return int(number)


def _wholes(values: Any, name: str) -> tuple[int, ...]:
    return tuple(_whole(value, f"{name}[{at}]") for at, value in enumerate(_list(values, name)))


def _list(values: Any, name: str) -> list[Any]:
    if isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__len__"):
        raise InputError(f"{name}: expected a list (got {type(values).__name__})")
    return list(values)


def _flat(values: list[Any]) -> bool:
    return len(values) > 0 and all(np.ndim(value) == 0 for value in values)


def _pairs(values: Any, name: str) -> tuple[tuple[int, int], ...]:
    entries = _list(values, name)
    if _flat(entries):
        if len(entries) % 2:
            raise InputError(f"{name}: a flat list of pairs has an even length (got {len(entries)})")
        entries = [entries[at : at + 2] for at in range(0, len(entries), 2)]
    pairs = [_wholes(pair, f"{name}[{at}]") for at, pair in enumerate(entries)]
    for at, pair in enumerate(pairs):
        if len(pair) != 2:
            raise InputError(f"{name}[{at}]: expected a pair of nodes (got {pair})")
    return tuple((pair[0], pair[1]) for pair in pairs)


def _live(values: Any, n: int) -> tuple[tuple[int, ...], ...]:
    """Nested; or flat as the compiler writes it: N lengths, then the nodes of one time step after the other."""
    entries = _list(values, "L")
    if not _flat(entries):
        return tuple(_wholes(nodes, f"L[{step}]") for step, nodes in enumerate(entries))
    whole = _wholes(entries, "L")
    sizes, rest = whole[:n], whole[n:]
    if min(sizes) < 0 or sum(sizes) != len(rest):
        raise InputError(f"L: a flat list starts with {n} lengths that add up to the rest, {len(rest)} entries")
    ends = np.cumsum((0, *sizes)).tolist()
    return tuple(rest[a:b] for a, b in pairwise(ends))


def _arrays(values: Any, name: str, shapes: Sequence[tuple[int, ...]]) -> tuple[Floats, ...]:
    """One array per entry, row-major entries reshaped to their pair's shape."""
    entries = _list(values, name)
    sizes = [int(np.prod(shape)) for shape in shapes]
    if _flat(entries):
        if len(entries) != sum(sizes):
            raise InputError(f"{name}: a flat list needs {sum(sizes)} numbers (got {len(entries)})")
        ends = np.cumsum([0, *sizes]).tolist()
        entries = [entries[a:b] for a, b in pairwise(ends)]
    if len(entries) != len(shapes):
        raise InputError(f"{name}: expected {len(shapes)} entries (got {len(entries)})")
    arrays: list[Floats] = []
    for at, (entry, shape, size) in enumerate(zip(entries, shapes, sizes, strict=True)):
        try:
            array = np.asarray(entry, np.float64)
        except (TypeError, ValueError):
            raise InputError(f"{name}[{at}]: expected {size} numbers") from None
        if array.size != size or (array.ndim != 1 and array.shape != shape):
            raise InputError(f"{name}[{at}]: expected {size} numbers, {shape} row-major (got shape {array.shape})")
        arrays.append(array.reshape(shape))
    return tuple(arrays)
