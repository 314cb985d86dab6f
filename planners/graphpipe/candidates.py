"""Every set of units that may be a stage, priced at every microbatch and number of devices.

Of a series, all runs of its parts. Of parallel branches, several whole ones together; and, with the parts that follow
them, whole branches and the end of one more: the stage in which branches meet. Branches that are equal are counted,
not told apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from .kernels import ANY
from .stage_costs import SetCosts, StageCosts
from .tree import Parallel, Series

__all__ = ["Candidates", "Join", "ParallelNode", "SeriesNode", "candidates_of"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Join:
    """Where branches meet in one stage: the parts after them with some of their ends.

    Parameters
    ----------
    branch : int
        Class of the branch whose end is in the stage; −1: none.
    cut : int
        Where that branch is cut.
    whole : int
        Whole branches in the stage, as a number of counts.
    place : int
        Number of the place that it begins at; see `SeriesNode`.
    """

    branch: int
    cut: int
    whole: int
    place: int


@dataclass(eq=False)
class ParallelNode:
    """Branches of a `Parallel`, as the search needs them.

    Parameters
    ----------
    classes : tuple of SeriesNode
        One for each class.
    members : tuple of tuple of SeriesNode
        All branches of each class; the first is the one above.
    radix : ndarray
        Branches of each class, plus one.
    groups : ndarray, shape (n_counts,)
        Candidate that is so many whole branches in one stage; −1: none.
    joins : list of Join
        Stages in which some of them meet.
    """

    classes: tuple[SeriesNode, ...]
    members: tuple[tuple[SeriesNode, ...], ...]
    radix: Ints
    groups: Ints
    joins: list[Join] = field(default_factory=list[Join])

    @property
    def stride(self) -> tuple[int, ...]:
        """What one branch of each class adds to the number of counts."""
        found = [1]
        for size in self.radix[:0:-1]:
            found.append(found[-1] * int(size))
        return tuple(reversed(found))

    def counts(self, number: int) -> tuple[int, ...]:
        """Branches of each class of a number of counts."""
        return tuple(number // s % int(r) for s, r in zip(self.stride, self.radix, strict=True))

    @property
    def every(self) -> int:
        """The number of all branches."""
        return int(np.prod(self.radix)) - 1


@dataclass(eq=False)
class SeriesNode:
    """A series, as the search needs it.

    Places are cuts 0 … n of its parts, then the joins of its parallel children.

    Parameters
    ----------
    series : Series
        What it is.
    parallel : dict
        Part -> its branches, where it is parallel.
    ends : list of (ndarray, ndarray)
        For each cut, candidate stages that end there and the place at which each begins.
    n_places : int
        Cuts and joins.
    joins : dict
        Place -> (part, its join).
    """

    series: Series
    parallel: dict[int, ParallelNode]
    ends: list[tuple[Ints, Ints]]
    n_places: int
    joins: dict[int, tuple[int, Join]]

    @property
    def n(self) -> int:
        """Number of parts."""
        return len(self.series.children)


@dataclass(frozen=True, eq=False)
class Candidates:
    """All candidate stages of a tree.

    Parameters
    ----------
    root : SeriesNode
        The tree.
    units : list of tuple of int
        Units of each candidate; of equal branches, those of the first ones.
    tps : ndarray, shape (n, n_degrees, n_sizes)
        Seconds per sample; inf where it cannot be had.
    holds : ndarray of int64, the same shape
        Samples in flight that fit beside the rest; 0: none, `ANY`: the whole global batch.
    seconds : ndarray, shape (4, n, n_degrees, n_sizes)
        Of a microbatch forward and backward, each with half of the messages that it sends; of messages that arrive; and
        of what comes once an iteration.
    degrees : ndarray of int64
        Devices of a stage.
    microbatches : tuple of int
        The last axis.
    """

    root: SeriesNode
    units: list[tuple[int, ...]]
    tps: Floats
    holds: Ints
    seconds: Floats
    degrees: Ints
    microbatches: tuple[int, ...]


class _Register:
    """Numbers sets of units."""

    def __init__(self, graph_units: int) -> None:
        self.n, self.found, self.sets = graph_units, dict[tuple[int, ...], int](), list[tuple[int, ...]]()

    def __call__(self, units: Sequence[int]) -> int:
        key = tuple(sorted(units))
        if key not in self.found:
            self.found[key] = len(self.sets)
            self.sets.append(key)
        return self.found[key]


def candidates_of(tree: Series, costs: StageCosts, memory_bytes: float) -> Candidates:
    """Price every candidate stage of a tree.

    Parameters
    ----------
    tree : Series
        Over the units of the costs.
    costs : StageCosts
        What stages take.
    memory_bytes : float
        What a stage may use of a device.
    """
    register = _Register(costs.n_units)
    root = _node(tree, register)
    masks = np.zeros((len(register.sets), costs.n_units), bool)
    for row, units in enumerate(register.sets):
        masks[row, list(units)] = True
    sets = costs.of_sets(masks)
    shape = (len(register.sets), len(costs.devices), len(costs.microbatches))
    tps, holds, seconds = np.full(shape, np.inf), np.zeros(shape, np.int64), np.full((4, *shape), np.inf)
    for g, d in enumerate(costs.devices):
        for s, b in enumerate(costs.microbatches):
            tps[:, g, s] = costs.tps(sets, b, d)
            free = costs.memory(sets, b, d, 0)
            each = (costs.memory(sets, b, d, b) - free) / b
            holds[:, g, s] = _held(memory_bytes - free, each, b, costs.global_batch)
            column = costs.column(b, d)
            if column >= 0:
                moved = 0.0 if costs.overlap else costs.transfer_s(sets, b, d) / 2
                seconds[0, :, g, s] = sets.forward_s[:, column] + moved
                seconds[1, :, g, s] = sets.backward_input_s[:, column] + sets.backward_weight_s[:, column] + moved
                seconds[2, :, g, s] = costs.transfer_s(_mirrored(sets), b, d)
                seconds[3, :, g, s] = np.add(*costs.iteration_s(sets, d))
    return Candidates(root, register.sets, tps, holds, seconds, np.array(costs.devices, np.int64), costs.microbatches)


def _mirrored(sets: SetCosts) -> SetCosts:
    """What is received in place of what is sent; gradients come back of what was sent."""
    return replace(sets, sent_bytes=sets.received_bytes, returned_bytes=sets.sent_bytes)


def _held(room: Floats, each: Floats, microbatch: int, global_batch: int) -> Ints:
    """Samples, in whole microbatches, that fit into `room` bytes."""
    with np.errstate(divide="ignore", invalid="ignore"):
        samples = np.where(each > 0, np.floor(room / each * (1 + 1e-12) / microbatch) * microbatch, np.inf)
    samples = np.where(room < 0, 0.0, samples)
    return np.where(samples >= global_batch, float(ANY), samples).astype(np.int64)


def _node(series: Series, register: _Register) -> SeriesNode:
    children = series.children
    n = len(children)
    parts = [(c,) if isinstance(c, int) else c.units for c in children]
    parallel = {p: _parallel(c, register) for p, c in enumerate(children) if isinstance(c, Parallel)}
    ends: list[tuple[list[int], list[int]]] = [([], []) for _ in range(n + 1)]
    for q in range(1, n + 1):
        units: tuple[int, ...] = ()
        for p in range(q - 1, -1, -1):
            units = parts[p] + units
            ends[q][0].append(register(units))
            ends[q][1].append(p)
    places, joins = n + 1, dict[int, tuple[int, Join]]()
    for p, node in parallel.items():
        for branch, cut, whole, taken in _meetings(node):
            join = Join(branch, cut, whole, places)
            for q in range(p + 2, n + 1):
                after = tuple(u for part in parts[p + 1 : q] for u in part)
                ends[q][0].append(register(taken + after))
                ends[q][1].append(places)
            if p + 2 <= n:
                node.joins.append(join)
                joins[places] = (p, join)
                places += 1
    arrays = [(np.array(c, np.int64), np.array(b, np.int64)) for c, b in ends]
    return SeriesNode(series, parallel, arrays, places, joins)


def _parallel(part: Parallel, register: _Register) -> ParallelNode:
    members = tuple(tuple(_node(m, register) for m in b.members[:1]) for b in part.branches)
    classes = tuple(m[0] for m in members)
    every = tuple(tuple(_twin(m[0], other) for other in b.members) for m, b in zip(members, part.branches, strict=True))
    radix = np.array([len(b.members) + 1 for b in part.branches], np.int64)
    total = int(np.prod(radix))
    groups = np.full(total, -1, np.int64)
    node = ParallelNode(classes, every, radix, groups)
    for number in range(1, total):
        counts = node.counts(number)
        if sum(counts) > 1:
            groups[number] = register(_whole(node, counts))
    return node


def _whole(node: ParallelNode, counts: Sequence[int]) -> tuple[int, ...]:
    return tuple(
        u for members, count in zip(node.members, counts, strict=True) for m in members[:count] for u in m.series.units
    )


def _meetings(node: ParallelNode) -> list[tuple[int, int, int, tuple[int, ...]]]:
    """(class of the cut branch, where, whole branches, units taken); not all branches whole, which is a plain run."""
    found: list[tuple[int, int, int, tuple[int, ...]]] = []
    for number in range(node.every):
        counts = node.counts(number)
        whole = _whole(node, counts)
        if number:
            found.append((-1, 0, number, whole))
        for c, branch in enumerate(node.classes):
            if counts[c] + 1 >= int(node.radix[c]):
                continue
            cut_one = node.members[c][counts[c]]
            parts = [(u,) if isinstance(u, int) else u.units for u in cut_one.series.children]
            for cut in range(1, branch.n):
                found.append((c, cut, number, whole + tuple(u for part in parts[cut:] for u in part)))
    return found


def _twin(node: SeriesNode, other: Series) -> SeriesNode:
    """The node of an equal branch: the same stages, other units."""
    if node.series is other:
        return node
    parallel: dict[int, ParallelNode] = {}
    for p, mine in node.parallel.items():
        part = other.children[p]
        assert isinstance(part, Parallel)
        members = tuple(
            tuple(_twin(nodes[0], s) for s in branch.members)
            for nodes, branch in zip(mine.members, part.branches, strict=True)
        )
        parallel[p] = ParallelNode(tuple(m[0] for m in members), members, mine.radix, mine.groups, mine.joins)
    return SeriesNode(other, parallel, node.ends, node.n_places, node.joins)
