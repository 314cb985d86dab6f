"""The tree that the partitioner works on: units in series and in parallel, with equal branches recognised."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...profiles.graph import Graph
from ...profiles.graph.series_parallel import Leaf, SPTree, operators_of, sp_tree
from ...profiles.graph.series_parallel import Parallel as PlainParallel
from ...profiles.graph.series_parallel import Series as PlainSeries

__all__ = ["Branch", "Parallel", "Series", "Units", "chain_of", "grouped", "planning_tree"]

MOST_COUNTS = 512
"""Most counts (how many branches of each class) of one parallel part. The tables of the search grow with it. Beyond it
the classes are split into two halves, and no stage holds whole branches of both. The number is a guess."""

Units = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Series:
    """Parts that come one after the other.

    Parameters
    ----------
    children : tuple
        Units (int) and `Parallel` parts.
    """

    children: tuple[int | Parallel, ...]

    @property
    def units(self) -> tuple[int, ...]:
        """All units, in order."""
        return tuple(u for c in self.children for u in ((c,) if isinstance(c, int) else c.units))


@dataclass(frozen=True)
class Branch:
    """A class of branches that compute the same, and so are interchangeable.

    Parameters
    ----------
    members : tuple of Series
        The branches. The search plans the first; the others get the same stages.
    """

    members: tuple[Series, ...]


@dataclass(frozen=True)
class Parallel:
    """Parts that do not depend on each other.

    Parameters
    ----------
    branches : tuple of Branch
        Classes of equal branches.
    halved : bool
        Whether the branches are two halves of a part that had too many counts (`MOST_COUNTS`).
    """

    branches: tuple[Branch, ...]
    halved: bool = False

    @property
    def units(self) -> tuple[int, ...]:
        """All units."""
        return tuple(u for b in self.branches for m in b.members for u in m.units)


def chain_of(n: int) -> Series:
    """The tree of a sequential pipeline: all units one after the other."""
    return Series(tuple(range(n)))


def planning_tree(
    graph: Graph, groups: Sequence[Sequence[int]], keep: Callable[[tuple[int, ...]], bool]
) -> tuple[Series, Units]:
    """The tree of a graph whose operators are in groups; every branch is still in a class of its own.

    A graph that is not series-parallel gets additional precedence edges (`sp_tree`); it computes the same.

    Parameters
    ----------
    graph : Graph
        The graph.
    groups : sequence of sequence of int
        Groups of operators that no stage boundary separates.
    keep : callable
        Takes the operators of a parallel part and tells whether it is worth planning; if not, it becomes one unit.

    Returns
    -------
    (Series, tuple of tuple of int)
        The tree, and the operators of each of its units. Units are numbered in the tree's order, a topological one.
    """
    units: list[tuple[int, ...]] = []

    def walk(node: SPTree) -> tuple[int | Parallel, ...]:
        if isinstance(node, PlainSeries):
            return tuple(c for child in node.children for c in walk(child))
        if isinstance(node, PlainParallel) and keep(operators_of(node)):
            return (Parallel(tuple(Branch((Series(walk(child)),)) for child in node.children)),)
        units.append(node.operators if isinstance(node, Leaf) else tuple(sorted(operators_of(node))))
        return (len(units) - 1,)

    return Series(walk(sp_tree(graph, groups=[list(g) for g in groups]))), tuple(units)


def grouped(tree: Series, graph: Graph, units: Units) -> Series:
    """The same tree, with equal branches merged into one class."""

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
            children.append(_nested(tuple(Branch(tuple(members)) for members in classes.values())))
        return Series(tuple(children))

    return walk(tree)


def _nested(branches: tuple[Branch, ...]) -> Parallel:
    """One parallel part, or two halves beside each other if it would have too many counts."""
    ways = math.prod(len(b.members) + 1 for b in branches)
    if ways <= MOST_COUNTS or len(branches) == 1:
        return Parallel(branches)
    half = len(branches) // 2
    return Parallel(tuple(Branch((Series((_nested(part),)),)) for part in (branches[:half], branches[half:])), True)


def _signature(graph: Graph, units: Units, branch: Series) -> str:
    """A hash that is equal for branches that compute the same in the same surroundings under other names."""
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
    """How a branch sees a tensor from outside: by name if others read it too, else by its role and shape."""
    if name in graph.index or any(i not in mine for i, _ in graph.consumers[name]):
        return name
    tensor = graph.tensors[name]
    role = "parameter" if tensor in graph.parameters else "input"
    return f"{role}{tensor.shape}{tensor.dtype}{tensor.batch_dims}{tensor.trainable}"
