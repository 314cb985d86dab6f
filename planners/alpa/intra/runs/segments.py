"""`Segments`: layers cut further where few values cross; what crosses each cut, and which segments are the same.

The best plans of two neighbouring segments only interact through the specs of the values that cross between them, and
through the storage of parameters that both read. These are the variables of the chain. Values that only the next
segment reads cross together in a bundle. A value that is read later still, or a shared parameter, is a variable of its
own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from .....errors import InputError
from .....profiles.graph import graph_cut, layer_bounds
from ..analysis import Analysis
from ..options import Recompute

__all__ = ["Segment", "Segments"]


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive operators.

    Parameters
    ----------
    first, last : int
        Operators.
    starts, ends : int
        Layer that begins or ends with it; −1: none.
    kind : int
        Segments of one kind have the same problem, node by node.
    reads : tuple of str
        Values made in the segment before and read only here, in the order of the bundle.
    long_reads : tuple of str
        Values and parameters with a variable of their own that it reads.
    makes : tuple of str
        Values that only the next segment reads.
    long_makes : tuple of str
        Values that it makes with a variable of their own.
    """

    first: int
    last: int
    starts: int
    ends: int
    kind: int
    reads: tuple[str, ...]
    long_reads: tuple[str, ...]
    makes: tuple[str, ...]
    long_makes: tuple[str, ...]


class Segments:
    """The segments of a sequence of layers.

    Parameters
    ----------
    analysis : Analysis
        Facts about the graph.
    layers : sequence of (int, int)
        Consecutive ranges of operators.
    recompute : str
        Groups that are computed again are part of a segment's kind.

    Raises
    ------
    InputError
        If the layers are not consecutive ranges of the graph's operators.
    """

    def __init__(self, analysis: Analysis, layers: Sequence[tuple[int, int]], recompute: Recompute) -> None:
        graph = analysis.graph
        _check(layers, len(graph.operators))
        self.analysis, self.layers = analysis, tuple(layers)
        self.recompute: Recompute = recompute
        begin, end = layers[0][0], layers[-1][1]
        cuts = {begin, end, *(a for a, _ in layers)}
        cuts |= {c for c in layer_bounds(graph) if begin < c < end and len(graph_cut(graph, c)) == 1}
        self.edges = tuple(sorted(cuts))
        readers = {
            name: sorted({self.at(i) for i, _ in where if begin <= i < end}) for name, where in graph.consumers.items()
        }
        self.made = {op.name: self.at(i) for i, op in enumerate(graph.operators) if begin <= i < end}
        self.readers = readers
        self.long: dict[str, tuple[int, int]] = {}
        for name, where in readers.items():
            if name in self.made and where and where[-1] > self.made[name] + 1:
                self.long[name] = (self.made[name], where[-1])
            elif name in analysis.parameters and len(where) > 1:
                self.long[name] = (where[0], where[-1])
            elif name in graph.index and name not in self.made and len(where) > 1:
                self.long[name] = (-1, where[-1])  # from before the layers
        self._first_kept: dict[str, tuple[int, tuple[int, ...]]] = {}
        self.segments = self._segments()

    @property
    def separates_twins(self) -> bool:
        """Whether a cut lies between operators that share a copy of a value."""
        pairs = ((self.at(i), self.at(twin)) for i, twin in enumerate(self.analysis.twins) if twin != i)
        n = len(self.edges) - 1
        return any(a != b for a, b in pairs if b >= 0 and a < n)

    def at(self, i: int) -> int:
        """Segment of an operator."""
        return bisect_right(self.edges, i) - 1

    def first_kept(self, name: str) -> tuple[int, tuple[int, ...]]:
        """Where a crossing value is kept first in a stage that makes it, −1 for nowhere; and all segments that keep it
        in a stage that they begin.
        """
        if name not in self._first_kept:
            edges, kept = self.edges, self.analysis.kept
            entering = tuple(
                s
                for s in self.readers[name]
                if s > self.made.get(name, -1) and name in kept(edges[s], edges[s + 1], self.recompute).values
            )
            inside = -1
            if name in self.made:
                begin = edges[self.made[name]]
                values = kept(begin, edges[self.readers[name][-1] + 1], self.recompute).values
                at = values.get(self.analysis.root(name, begin))
                inside = -1 if at is None else self.at(at)
            self._first_kept[name] = (inside, entering)
        return self._first_kept[name]

    def counts(self, name: str, segment: int) -> list[bool]:
        """For stages that begin with each segment up to this one: whether a variable's own cost falls due here.

        A parameter's does where it is read first, that of a value where it is kept first.
        """
        if name in self.analysis.parameters:
            return [segment == next((r for r in self.readers[name] if r >= i), -1) for i in range(segment + 1)]
        inside, entering = self.first_kept(name)
        made = self.made.get(name, -1)
        return [
            inside == segment if i <= made else segment == next((s for s in entering if s >= i), -1)
            for i in range(segment + 1)
        ]

    def _segments(self) -> tuple[Segment, ...]:
        analysis, graph = self.analysis, self.analysis.graph
        starts = {a: k for k, (a, _) in enumerate(self.layers)}
        ends = {b: k for k, (_, b) in enumerate(self.layers)}
        seen: dict[object, int] = {}
        found: list[Segment] = []
        for s, (a, b) in enumerate(pairwise(self.edges)):
            names = dict.fromkeys(name for op in graph.operators[a:b] for name in op.inputs)
            outside = [n for n in names if n in graph.index and graph.index[n] < a]
            reads = tuple(n for n in outside if n in self.made and n not in self.long)
            long_reads = tuple(n for n in names if n in self.long and (n in analysis.parameters or n in outside))
            made = [op.name for op in graph.operators[a:b] if any(r > s for r in self.readers[op.name])]
            makes = tuple(n for n in made if n not in self.long)
            long_makes = tuple(n for n in made if n in self.long)
            key = self._key(a, b, (reads, long_reads, makes, long_makes))
            kind = seen.setdefault(key, len(seen))
            found.append(Segment(a, b, starts.get(a, -1), ends.get(b, -1), kind, reads, long_reads, makes, long_makes))
        return tuple(found)

    def _key(self, a: int, b: int, crossing: tuple[tuple[str, ...], ...]) -> object:
        """What two segments must share to have the same problem, node by node."""
        analysis, graph = self.analysis, self.analysis.graph
        groups = analysis.groups(self.recompute)
        place: dict[str, int] = {}
        group_place: dict[str, int] = {"": -1}
        lines: list[object] = []
        for i in range(a, b):
            op = graph.operators[i]
            reads: list[object] = []
            for name in op.inputs:
                at = graph.index.get(name, -1)
                if at >= a:
                    reads.append(at - a)
                    continue
                new = name not in place
                number = place.setdefault(name, len(place))
                kind = (
                    analysis.kinds[at]
                    if at >= 0
                    else (graph.tensors[name].shape, analysis.dtype(name), name in analysis.parameters)
                )
                reads.append((number, kind if new else None, name in analysis.differentiable))
            twin = analysis.twins[i]
            lines.append(
                (
                    analysis.kinds[i],
                    analysis.guides[i],
                    twin - i if twin >= a else 0,
                    group_place.setdefault(groups[i], len(group_place)),
                    op.name in analysis.differentiable,
                    tuple(reads),
                )
            )
        outside = tuple(tuple(place[n] if n in place else graph.index[n] - a for n in names) for names in crossing)
        return tuple(lines), outside


def _check(layers: Sequence[tuple[int, int]], n: int) -> None:
    whole = layers and all(0 <= a < b <= n for a, b in layers) and all(x[1] == y[0] for x, y in pairwise(layers))
    if not whole:
        raise InputError(f"layers: expected consecutive ranges of the graph's {n} operators (got {tuple(layers)})")
