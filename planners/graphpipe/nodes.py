"""The tree as the search walks it: which candidate stages there are, where each ends, and what may come before it.

A candidate stage is one of these:

- a run of neighbouring parts of a series;
- several whole branches of a parallel part;
- where branches meet: the parts after them, with some whole branches and perhaps the end of one more;
- where branches part: the parts before them, with some whole branches and perhaps the beginning of one more.

Equal branches are only counted, not told apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from .tree import Parallel, Series

__all__ = ["Fork", "Join", "ParallelNode", "Register", "SeriesNode", "series_node"]

Ints = npt.NDArray[np.int64]
MOST_FORKS = 400
"""Most combinations, for one parallel part, of a way of parting with a way of meeting: the search solves the branches
once for each. Beyond it, stages before a parallel part take no whole branches along, and beyond that nothing of a
branch. The number is a guess at what still takes seconds."""


@dataclass(frozen=True)
class Join:
    """A stage in which branches meet: parts that come after them, together with ends of some branches.

    Parameters
    ----------
    branch : int
        Class of the branch whose end is in the stage; −1: none.
    cut : int
        Where that branch is cut.
    whole : int
        Which whole branches are in the stage: the number of a count (see `ParallelNode.counts`).
    place : int
        Number of the place at which the stage begins; see `SeriesNode`.
    """

    branch: int
    cut: int
    whole: int
    place: int


@dataclass(eq=False)
class ParallelNode:
    """Branches that run beside each other, in classes of equal ones.

    Parameters
    ----------
    classes : tuple of SeriesNode
        One branch for each class; the search solves only this one.
    members : tuple of tuple of SeriesNode
        All branches of each class.
    radix : ndarray
        Number of branches of each class, plus one.
    groups : ndarray, shape (n_counts,)
        The candidate that holds so many whole branches in one stage; −1: none.
    joins : list of Join
        Stages in which some of the branches meet.
    """

    classes: tuple[SeriesNode, ...]
    members: tuple[tuple[SeriesNode, ...], ...]
    radix: Ints
    groups: Ints
    joins: list[Join] = field(default_factory=list[Join])

    @property
    def stride(self) -> tuple[int, ...]:
        """What one more branch of each class adds to the number of a count."""
        found = [1]
        for size in self.radix[:0:-1]:
            found.append(found[-1] * int(size))
        return tuple(reversed(found))

    def counts(self, number: int) -> tuple[int, ...]:
        """How many branches of each class the count with this number has."""
        return tuple(number // s % int(r) for s, r in zip(self.stride, self.radix, strict=True))

    @property
    def every(self) -> int:
        """The number of the count that has all branches."""
        return int(np.prod(self.radix)) - 1


@dataclass(frozen=True, eq=False)
class Fork:
    """A parallel part, after one kind of stage that may come before it.

    Parameters
    ----------
    part : int
        Position of the parallel part in the series.
    branches : ParallelNode
        Its branches, without what the stage before has taken of them.
    row : int
        Where the stage before ends: the cut before the part, or a row of its own.
    taken : tuple of int
        Units of the branches that the stage before has taken.
    whole : bool
        Whether it has taken whole branches, so that it also feeds what follows the parallel part.
    """

    part: int
    branches: ParallelNode
    row: int
    taken: tuple[int, ...] = ()
    whole: bool = False


@dataclass(eq=False)
class SeriesNode:
    """A series of parts, with the numbering of where its stages begin and end.

    A stage begins at a *place*. Places 0 … n are the cuts between the parts, the further ones the joins of the forks. A
    stage ends in a *row*. Rows 0 … n are the cuts, the further ones the forks whose stage before has taken something of
    the branches.

    Parameters
    ----------
    series : Series
        The series of the tree.
    forks : list of Fork
        The forks of its parallel parts.
    ends : list of (ndarray, ndarray)
        For each row, the candidate stages that end there, and the place at which each begins.
    n_places : int
        Number of places.
    joins : dict
        Place -> (number of the fork, its join).
    """

    series: Series
    forks: list[Fork]
    ends: list[tuple[Ints, Ints]]
    n_places: int
    joins: dict[int, tuple[int, Join]]

    @property
    def n(self) -> int:
        """Number of parts."""
        return len(self.series.children)

    def units(self, first: int, last: int) -> tuple[int, ...]:
        """Units of a run of parts."""
        return tuple(u for c in self.series.children[first:last] for u in ((c,) if isinstance(c, int) else c.units))


class Register:
    """Gives each set of units a number, and remembers whether a limit of ours left some out (`narrowed`)."""

    def __init__(self) -> None:
        self.found, self.sets = dict[tuple[int, ...], int](), list[tuple[int, ...]]()
        self.narrowed = False

    def __call__(self, units: Sequence[int]) -> int:
        """The number of a set."""
        key = tuple(sorted(units))
        if key not in self.found:
            self.found[key] = len(self.sets)
            self.sets.append(key)
        return self.found[key]


def series_node(series: Series, register: Register) -> SeriesNode:
    """Build the node of a series and of all parts in it, and register every candidate stage."""
    n = len(series.children)
    ends: list[tuple[list[int], list[int]]] = [([], []) for _ in range(n + 1)]
    node = SeriesNode(series, [], [], n + 1, {})
    for q in range(1, n + 1):
        for p in range(q):
            ends[q][0].append(register(node.units(p, q)))
            ends[q][1].append(p)
    for p, child in enumerate(series.children):
        if not isinstance(child, Parallel):
            continue
        node.forks.append(Fork(p, _parallel(child, register), p))
        for taken, whole, rest in _partings(node.forks[-1].branches, register) if p else ():
            node.forks.append(Fork(p, rest, len(ends), taken, whole))
            runs = [(register(node.units(first, p) + taken), first) for first in range(p)]
            ends.append(([c for c, _ in runs], [first for _, first in runs]))
    for number, fork in enumerate(node.forks):
        if fork.part + 2 > n:
            continue
        for branch, cut, whole, taken in _meetings(fork.branches, fork.row > n):
            join = Join(branch, cut, whole, node.n_places)
            fork.branches.joins.append(join)
            node.joins[join.place] = (number, join)
            node.n_places += 1
            for q in range(fork.part + 2, n + 1):
                ends[q][0].append(register(taken + node.units(fork.part + 1, q)))
                ends[q][1].append(join.place)
    node.ends = [(np.array(c, np.int64), np.array(b, np.int64)) for c, b in ends]
    return node


def _parallel(part: Parallel, register: Register) -> ParallelNode:
    members: list[tuple[SeriesNode, ...]] = []
    register.narrowed |= part.halved
    for branch in part.branches:
        first = series_node(branch.members[0], register)
        rest = (
            series_node(other, register) if first.forks else SeriesNode(other, [], first.ends, first.n_places, {})
            for other in branch.members[1:]
        )
        members.append((first, *rest))
    return _beside(tuple(m[0] for m in members), tuple(members), register)


def _beside(
    classes: tuple[SeriesNode, ...], members: tuple[tuple[SeriesNode, ...], ...], register: Register
) -> ParallelNode:
    radix = np.array([len(m) + 1 for m in members], np.int64)
    node = ParallelNode(classes, members, radix, np.full(int(np.prod(radix)), -1, np.int64))
    for number in range(1, node.every + 1):
        counts = node.counts(number)
        if sum(counts) > 1:
            node.groups[number] = register(_whole(node, counts))
    return node


def _whole(node: ParallelNode, counts: Sequence[int]) -> tuple[int, ...]:
    return tuple(
        u for members, count in zip(node.members, counts, strict=True) for m in members[:count] for u in m.series.units
    )


def _choices(node: ParallelNode, most: int) -> Iterator[tuple[int, int, int]]:
    """Ways to take something of the branches: (class of the branch that is cut, where, count of whole branches).

    The class is −1 if no branch is cut.
    """
    for number in range(most + 1):
        counts = node.counts(number)
        yield -1, 0, number
        for c, branch in enumerate(node.classes):
            if counts[c] + 1 < int(node.radix[c]):
                yield from ((c, cut, number) for cut in range(1, branch.n))


def _meetings(node: ParallelNode, all_whole: bool) -> Iterator[tuple[int, int, int, tuple[int, ...]]]:
    """Choices with the units that a stage after the branches takes of them.

    Taking all of them whole is a plain run of parts already, so that it counts only if the stage before took some.
    """
    for c, cut, number in _choices(node, node.every if all_whole else node.every - 1):
        if c < 0 and number == 0:
            continue
        counts = node.counts(number)
        taken = _whole(node, counts)
        if c >= 0:
            one = node.members[c][counts[c]]
            taken += one.units(cut, one.n)
        yield c, cut, number, taken


def _partings(node: ParallelNode, register: Register) -> Iterator[tuple[tuple[int, ...], bool, ParallelNode]]:
    """What a stage before the branches may take: its units, whether whole branches are among them, and what is left."""
    ways = len(list(_choices(node, node.every - 1)))
    most = node.every - 1 if ways * ways <= MOST_FORKS else 0
    few = len(list(_choices(node, 0)))
    register.narrowed |= ways * ways > MOST_FORKS
    if few * ways > MOST_FORKS:
        return
    for c, cut, number in _choices(node, most):
        if c < 0 and number == 0:
            continue
        counts = node.counts(number)
        taken = _whole(node, counts)
        classes: list[SeriesNode] = []
        members: list[tuple[SeriesNode, ...]] = []
        for k, branches in enumerate(node.members):
            left = branches[counts[k] + (k == c) :]
            if left:
                classes.append(node.classes[k])
                members.append(left)
        if c >= 0:
            one = node.members[c][counts[c]]
            taken += one.units(0, cut)
            end = series_node(Series(one.series.children[cut:]), register)
            classes.append(end)
            members.append((end,))
        yield taken, number > 0, _beside(tuple(classes), tuple(members), register)
