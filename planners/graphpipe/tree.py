"""The series–parallel tree that the partitioner works on: units in series and in parallel, equal branches recognised.

A set of units is in *series* at a place of its topological order where all that come before precede all that come after;
it is *parallel* where it falls apart into parts without any order between them. A set that is neither is made a
series–parallel one by adding dependencies (§3.5: "an arithmetically identical one"): its units are taken level by level.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ...profiles.graph import Graph

__all__ = ["Branch", "Parallel", "Series", "chain_of", "collapsed", "decompose", "grouped"]

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Series:
    """Parts one after the other.

    Parameters
    ----------
    children : tuple
        Units (int) and `Parallel` parts.
    converted : bool
        Whether dependencies were added to make it a series.
    """

    children: tuple[int | Parallel, ...]
    converted: bool = False

    @property
    def units(self) -> tuple[int, ...]:
        """All units, in order."""
        return tuple(u for c in self.children for u in ((c,) if isinstance(c, int) else c.units))


@dataclass(frozen=True)
class Branch:
    """Branches that are the same computation, and so interchangeable.

    Parameters
    ----------
    members : tuple of Series
        The branches. Plans are made for the first and dealt to all.
    """

    members: tuple[Series, ...]


@dataclass(frozen=True)
class Parallel:
    """Parts that do not depend on each other.

    Parameters
    ----------
    branches : tuple of Branch
        Classes of equal branches.
    """

    branches: tuple[Branch, ...]

    @property
    def units(self) -> tuple[int, ...]:
        """All units."""
        return tuple(u for b in self.branches for m in b.members for u in m.units)


def decompose(after: Bools) -> Series:
    """The tree of units 0 … n − 1 in topological order, with every branch in a class of its own.

    Parameters
    ----------
    after : ndarray of bool, shape (n, n)
        [u, v]: v comes after u, transitively closed.
    """
    related = after | after.T
    np.fill_diagonal(related, True)
    return _series(list(range(len(after))), after, related)


def _series(units: list[int], after: Bools, related: Bools) -> Series:
    if len(units) == 1:
        return Series((units[0],))
    here = np.array(units)
    inside = after[np.ix_(here, here)]
    before_all = np.concatenate(([0], np.cumsum(inside.sum(axis=1))))  # pairs whose first is among the first i
    n = len(units)
    within = np.array([inside[:i, :i].sum() for i in range(n + 1)])
    cuts = [i for i in range(1, n) if before_all[i] - within[i] == i * (n - i)]
    if cuts:
        parts = [units[a:b] for a, b in zip([0, *cuts], [*cuts, n], strict=True)]
        children: list[int | Parallel] = []
        converted = False
        for part in parts:
            if len(part) == 1:
                children.append(part[0])
                continue
            made = _series(part, after, related)
            children += made.children  # a part that has no cut is one parallel child, or was converted
            converted |= made.converted
        return Series(tuple(children), converted)
    parts = _components(units, related)
    if len(parts) > 1:
        return Series((Parallel(tuple(Branch((_series(part, after, related),)) for part in parts)),))
    return Series(tuple(_levels(units, inside)), True)


def _components(units: list[int], related: Bools) -> list[list[int]]:
    left, parts = set(units), list[list[int]]()
    while left:
        found, stack = set[int](), [min(left)]
        while stack:
            u = stack.pop()
            if u in found:
                continue
            found.add(u)
            stack += [v for v in left if related[u, v] and v not in found]
        parts.append(sorted(found))
        left -= found
    return sorted(parts)


def _levels(units: list[int], inside: Bools) -> list[int | Parallel]:
    """Longest-path levels; the units of one level do not depend on each other."""
    level = np.zeros(len(units), np.int64)
    for i in range(len(units)):
        level[i] = max((int(level[j]) + 1 for j in np.flatnonzero(inside[:, i])), default=0)
    children: list[int | Parallel] = []
    for k in range(int(level.max()) + 1):
        mine = [units[i] for i in np.flatnonzero(level == k)]
        one = Parallel(tuple(Branch((Series((u,)),)) for u in mine)) if len(mine) > 1 else mine[0]
        children.append(one)
    return children


def collapsed(tree: Series, keep: Callable[[Parallel], bool]) -> tuple[Series, tuple[tuple[int, ...], ...]]:
    """The tree whose parallel parts that are not worth planning are one unit each.

    Returns
    -------
    (Series, tuple of tuple of int)
        The tree over new units, and the old units of each, in the tree's order.
    """
    groups: list[tuple[int, ...]] = []

    def new(units: Sequence[int]) -> int:
        groups.append(tuple(units))
        return len(groups) - 1

    def walk(node: Series) -> Series:
        children: list[int | Parallel] = []
        for child in node.children:
            if isinstance(child, int):
                children.append(new((child,)))
            elif keep(child):
                children.append(Parallel(tuple(Branch(tuple(walk(m) for m in b.members)) for b in child.branches)))
            else:
                children.append(new(child.units))
        return replace(node, children=tuple(children))

    return walk(tree), tuple(groups)


def chain_of(n: int) -> Series:
    """Sequential pipelines: all units one after the other."""
    return Series(tuple(range(n)))


def grouped(tree: Series, graph: Graph, units: Sequence[Sequence[int]]) -> Series:
    """The same tree with equal branches in one class each."""

    def walk(node: Series) -> Series:
        children: list[int | Parallel] = []
        for child in node.children:
            if isinstance(child, int):
                children.append(child)
                continue
            classes: dict[str, list[Series]] = {}
            for branch in child.branches:
                for member in branch.members:
                    classes.setdefault(_signature(graph, units, member), []).append(walk(member))
            children.append(Parallel(tuple(Branch(tuple(members)) for members in classes.values())))
        return replace(node, children=tuple(children))

    return walk(tree)


def _signature(graph: Graph, units: Sequence[Sequence[int]], branch: Series) -> str:
    """Hash that is the same for the same computation with the same surroundings under other names."""
    turn = {u: n for n, u in enumerate(branch.units)}
    place: dict[str, str] = {}
    outside: dict[str, str] = {}
    lines = [_shape(branch, turn)]
    mine = {i for u in turn for i in units[u]}
    for u in turn:
        for i in units[u]:
            op = graph.operators[i]
            reads: list[str] = []
            for name in op.inputs:
                if name not in place and name not in outside:
                    outside[name] = f"${len(outside)}{_seen_from(graph, name, mine)}"
                reads.append(place.get(name) or outside[name])
            place[op.name] = f"#{len(place)}"
            leaves = sorted({graph.operators[r].name for r, _ in graph.consumers[op.name] if r not in mine})
            loops = " ".join(f"{x.name}={x.size}{int(x.batch)}{x.split}" for x in op.loops)
            said = (op.kind, op.formula, reads, loops, op.dtype, op.flops, op.saves, sorted(op.attributes.items()))
            lines.append(f"{turn[u]}|{said!r}|{leaves}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _shape(node: Series, turn: dict[int, int]) -> str:
    parts = [
        str(turn[c])
        if isinstance(c, int)
        else "(" + ",".join("+".join(_shape(m, turn) for m in b.members) for b in c.branches) + ")"
        for c in node.children
    ]
    return ">".join(parts)


def _seen_from(graph: Graph, name: str, mine: set[int]) -> str:
    """What a branch reads from outside: its name where others read it too, else what it is like."""
    if name in graph.index or any(i not in mine for i, _ in graph.consumers[name]):
        return name
    tensor = graph.tensors[name]
    role = "parameter" if tensor in graph.parameters else "input"
    return f"{role}{tensor.shape}{tensor.dtype}{tensor.batch_dims}{tensor.trainable}"
