"""`sp_tree`: a graph's operators as a tree of series and parallel compositions, for planners of stage graphs.

Precedence decides, not single edges: in ``Series(A, B)`` everything in A may come before everything in B, in
``Parallel(A, B)`` nothing in one is read in the other, directly or through others. So a skip connection past operators
is no branch of its own, and several sources or sinks need no virtual operator to join them: inputs and parameters are
given to whoever reads them and order nothing. Views that read one operator are folded into it. In the words of
GraphPipe (§3.5): its virtual source and sink, and branches without operators, are left out of the tree.

An order that contains an N (a → c, b → c, b → d and nothing else) is no such tree. `sp_tree` then adds precedence where
it costs least (``convert="order"``), or puts what cannot be decomposed into one leaf (``convert="group"``); either
computes what the graph computes, with fewer ways to cut it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from ...errors import InputError
from ...reprs import Shown
from .graph import Graph
from .leaf_sets import Groups, acyclic, leaf_sets, sorted_sets

__all__ = ["Leaf", "Parallel", "SPTree", "Series", "is_series_parallel", "leaves", "operators_of", "sp_tree"]


@dataclass(frozen=True, slots=True, repr=False)
class Leaf(Shown):
    """Operators that are not taken apart, by position, in the graph's order."""

    operators: tuple[int, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Series(Shown):
    """Parts one after another; at least two, none of them a `Series`."""

    children: tuple[SPTree, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Parallel(Shown):
    """Parts that do not depend on each other; at least two, none of them a `Parallel`, by their first operators."""

    children: tuple[SPTree, ...]


SPTree = Leaf | Series | Parallel
LARGE = 256
"""Parts with more units than this are cut only within their middle half. Cuts near an end could take as many rounds as
there are units; the number is a guess."""


def leaves(tree: SPTree) -> Iterator[Leaf]:
    """The leaves, from first to last."""
    stack: list[SPTree] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, Leaf):
            yield node
        else:
            stack += reversed(node.children)


def operators_of(tree: SPTree) -> tuple[int, ...]:
    """Operators of a tree, by position, leaf by leaf.

    It is a topological order in which every part of the tree, and every run of a node's children, is consecutive:
    ``ModelEntry.order`` of a plan whose stages are such parts, where the graph's own order does not have them together.
    """
    return tuple(i for leaf in leaves(tree) for i in leaf.operators)


def sp_tree(
    graph: Graph, *, groups: Groups = "operators", convert: Literal["order", "group", "refuse"] = "order"
) -> SPTree:
    """Decompose a graph.

    Parameters
    ----------
    graph : Graph
        The graph.
    groups : {"operators", "layers"} or sequence of sequences of int
        What a leaf is. Layers: operators of one `layer` tag; those that have none are leaves of their own. Of given
        sets, likewise. Sets that would wait for each other are made one.
    convert : {"order", "group", "refuse"}
        What to do where the graph is not series-parallel: add precedence, make one leaf of it, or raise.

    Raises
    ------
    InputError
        If groups are wrong, or the graph is not series-parallel and that is to be refused: four operators that show it.
    """
    if convert not in ("order", "group", "refuse"):
        raise InputError(f"convert: expected order, group or refuse (got {convert!r})")
    order = _Order.of(graph, leaf_sets(graph, groups))
    return _decomposed(order, list(range(len(order.units))), convert, graph)


def is_series_parallel(graph: Graph, *, groups: Groups = "operators") -> bool:
    """Whether a graph is series-parallel as it is."""
    order = _Order.of(graph, leaf_sets(graph, groups))
    try:
        _decomposed(order, list(range(len(order.units))), "refuse", graph)
    except InputError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Order:
    """Units in topological order; of each, bit sets of those after and of those comparable (itself, too), and depth."""

    units: list[tuple[int, ...]]
    after: list[int]
    related: list[int]
    depth: list[int]

    @classmethod
    def of(cls, graph: Graph, sets: list[int]) -> _Order:
        """Of operators in sets: `sets` gives each operator the number of its set."""
        reads = [sorted({graph.index[x] for x in op.inputs if x in graph.index}) for op in graph.operators]
        sets = acyclic(reads, sets)
        members: dict[int, list[int]] = {}
        for i, s in enumerate(sets):
            members.setdefault(s, []).append(i)
        before = {s: {sets[j] for i in own for j in reads[i]} - {s} for s, own in members.items()}
        place = {s: k for k, s in enumerate(sorted_sets(before, {s: own[0] for s, own in members.items()}))}
        n = len(members)
        earlier, after, depth = [0] * n, [0] * n, [0] * n
        nexts: list[list[int]] = [[] for _ in range(n)]
        for s, k in place.items():
            for p in before[s]:
                nexts[place[p]].append(k)
        for k in range(n - 1, -1, -1):
            for q in nexts[k]:
                after[k] |= after[q] | 1 << q
        for k in range(n):
            for q in nexts[k]:
                earlier[q] |= earlier[k] | 1 << k
                depth[q] = max(depth[q], depth[k] + 1)
        units = [tuple(members[s]) for s in place]
        return cls(units, after, [earlier[k] | after[k] | 1 << k for k in range(n)], depth)


def _decomposed(order: _Order, part: list[int], convert: str, graph: Graph) -> SPTree:
    """The tree of some units, given in topological order. Recursion is as deep as parallel parts are nested."""
    done: list[SPTree] = []
    stack = [part]
    while stack:
        part = stack.pop()
        if len(part) == 1:
            done.append(Leaf(order.units[part[0]]))
            continue
        apart = _components(order, part)
        if len(apart) > 1:
            done.append(Parallel(tuple(_decomposed(order, x, convert, graph) for x in apart)))
            continue
        runs = _runs(order, part)
        if len(runs) == 1:
            if convert == "refuse":
                raise InputError(f"graph {graph.name!r}: is not series-parallel: {_witness(order, part, graph)}")
            if convert == "group":
                done.append(Leaf(tuple(sorted(i for k in part for i in order.units[k]))))
                continue
            runs = _cheapest_cut(order, part)
        stack += reversed(runs)
    return done[0] if len(done) == 1 else Series(tuple(done))


def _components(order: _Order, part: list[int]) -> list[list[int]]:
    """Sets of units that do not depend on each other."""
    rest = _bits(part)
    found: list[list[int]] = []
    while rest:
        mine = order.related[(rest & -rest).bit_length() - 1] & rest
        seen = rest & -rest
        while mine != rest and (new := mine & ~seen):
            at = new & -new
            mine |= order.related[at.bit_length() - 1] & rest
            seen |= at
        found.append([k for k in part if mine >> k & 1])
        rest &= ~mine
    return found


def _runs(order: _Order, part: list[int]) -> list[list[int]]:
    """Cut wherever everything before comes before everything after."""
    everything, last = _bits(part), -1
    runs: list[list[int]] = [[]]
    for k in part:
        if runs[-1] and last < k:
            runs.append([])
        runs[-1].append(k)
        last = max(last, k, (everything & ~order.related[k]).bit_length() - 1)
    return runs


def _cheapest_cut(order: _Order, part: list[int]) -> list[list[int]]:
    """Cut a part into two runs, the first wholly before the second, so that the fewest unordered pairs become ordered.

    Cuts are looked for along two topological orders. In large parts only the middle half of these is tried, so that
    the parts halve quickly.
    """
    everything, margin = _bits(part), len(part) // 4 if len(part) > LARGE else 0
    best: tuple[int, int, list[list[int]]] | None = None
    for line in (part, sorted(part, key=lambda k: (order.depth[k], k))):
        crossing, first = 0, 0
        for p, k in enumerate(line[:-1], 1):
            free = everything & ~order.related[k]
            crossing += (free & ~first).bit_count() - (free & first).bit_count()
            first |= 1 << k
            lopsided = abs(len(line) - 2 * p)
            if margin <= p <= len(line) - margin and (best is None or (crossing, lopsided) < best[:2]):
                best = crossing, lopsided, [sorted(line[:p]), sorted(line[p:])]
    assert best is not None  # a part has two units or more
    return best[2]


def _witness(order: _Order, part: list[int], graph: Graph) -> str:
    """Operators that form an N: a and b before c, b before d, a and d (and a and b, c and d) in no order."""
    everything = _bits(part)
    for b in part:
        later = order.after[b] & everything
        for c in _ones(later):
            for d in _ones(later & ~order.related[c]):
                for a in _ones(everything & ~order.related[b] & ~order.related[d] & order.related[c]):
                    if order.after[a] >> c & 1:
                        names = [graph.operators[order.units[k][0]].name for k in (a, b, c, d)]
                        return "{2!r} waits for {0!r} and {1!r}, {3!r} for {1!r} only".format(*names)
    return f"{len(part)} operators from {graph.operators[order.units[part[0]][0]].name!r} on"


def _bits(part: Iterable[int]) -> int:
    found = 0
    for k in part:
        found |= 1 << k
    return found


def _ones(bits: int) -> Iterator[int]:
    while bits:
        yield (bits & -bits).bit_length() - 1
        bits &= bits - 1
