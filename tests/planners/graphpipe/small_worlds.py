"""Small series-parallel graphs of units with made-up costs, and searches over all that may be chosen for them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from meshwright.planners.graphpipe.schedule.in_flight import held_samples, in_flight
from meshwright.planners.graphpipe.tree import Branch, Parallel, Series
from meshwright.planners.stages.costs import StageCosts
from meshwright.profiles.graph import zoo_graph
from meshwright.simulator.cluster import Cluster

Plan = tuple[frozenset[int], ...]


@dataclass(frozen=True)
class World:
    """A tree of units, its edges, and prices."""

    tree: Series
    edges: tuple[tuple[int, int], ...]
    costs: StageCosts
    memory_bytes: float


def random_tree(rng: np.random.Generator, shape: str) -> Series:
    """``shape``: units as dots, parallel parts as (branch|branch), numbered from left to right."""
    counter = itertools.count()

    def series(text: str) -> Series:
        children: list[int | Parallel] = []
        at = 0
        while at < len(text):
            if text[at] == ".":
                children.append(next(counter))
                at += 1
                continue
            depth, end = 0, at
            parts, start = [], at + 1
            for end in range(at, len(text)):
                depth += {"(": 1, ")": -1}.get(text[end], 0)
                if (depth == 1 and text[end] == "|") or depth == 0:
                    parts.append(text[start:end])
                    start = end + 1
                if depth == 0:
                    break
            children.append(Parallel(tuple(Branch((series(p),)) for p in parts)))
            at = end + 1
        return Series(tuple(children))

    return series(shape)


def ends(node: Series, first: bool) -> list[int]:
    """Units that begin (or end) a series."""
    child = node.children[0 if first else -1]
    if isinstance(child, int):
        return [child]
    return [u for b in child.branches for m in b.members for u in ends(m, first)]


def edges_of(node: Series) -> Iterator[tuple[int, int]]:
    """Every junction of a series joins all that end before it with all that begin after it."""
    for child in node.children:
        if isinstance(child, Parallel):
            for b in child.branches:
                for m in b.members:
                    yield from edges_of(m)
    for a, b in itertools.pairwise(node.children):
        for x in ends(Series((a,)), False):
            yield from ((x, y) for y in ends(Series((b,)), True))


def world(
    rng: np.random.Generator, shape: str, *, global_batch: int, microbatches: Sequence[int], devices: Sequence[int],
    memory: float, skips: int = 0,
) -> World:  # fmt: skip
    """Random prices; `memory` is in units of what a unit keeps of one sample."""
    tree = random_tree(rng, shape)
    n = len(tree.units)
    edges = list(edges_of(tree))
    after = reachable(n, edges)
    for _ in range(skips):
        a, b = rng.choice([(a, b) for a in range(n) for b in after[a]])
        edges.append((int(a), int(b)))
    edges = sorted(set(edges))
    samples = tuple(sorted({b // d for b in microbatches for d in devices if b % d == 0}))
    each = rng.integers(2, 12, n)[None, :, None] * (np.array(samples) + rng.integers(1, 3)) / 64.0
    seconds = np.broadcast_to(each, (3, n, len(samples))).copy()
    makers = np.zeros((n, n), bool)
    readers = np.zeros((n, n), bool)
    for a, b in edges:
        makers[a, a] = readers[a, b] = True
    link = zoo_graph("tiny-mlp")
    costs = StageCosts(
        link, Cluster(1, max(4, max(devices))), tuple((i,) for i in range(n)), global_batch, tuple(microbatches),
        tuple(devices), samples, seconds, np.eye(n, dtype=bool), rng.integers(1, 4, (3, n)).astype(float),
        np.eye(n, dtype=bool), rng.integers(1, 3, n).astype(float), makers, readers,
        rng.integers(0, 3, (2, n)).astype(float) * 1e9, np.zeros(n), "adam", "made up", False,
    )  # fmt: skip
    return World(tree, tuple(edges), costs, memory)


def reachable(n: int, edges: Sequence[tuple[int, int]]) -> list[set[int]]:
    """What comes after each unit."""
    after: list[set[int]] = [set() for _ in range(n)]
    for u in reversed(range(n)):
        for a, b in edges:
            if a == u:
                after[u] |= {b} | after[b]
    return after


def partitions(units: Sequence[int]) -> Iterator[list[set[int]]]:
    """All partitions of a set."""
    if not units:
        yield []
        return
    for rest in partitions(units[1:]):
        yield [{units[0]}, *rest]
        for k in range(len(rest)):
            yield [*rest[:k], rest[k] | {units[0]}, *rest[k + 1 :]]


def stage_graphs(n: int, edges: Sequence[tuple[int, int]]) -> Iterator[Plan]:
    """All partitions into stages that do not wait for each other in a circle: all that C1 and C2 allow."""
    for parts in partitions(range(n)):
        if quotient(parts, edges) is not None:
            yield tuple(frozenset(p) for p in parts)


def quotient(parts: Sequence[set[int] | frozenset[int]], edges: Sequence[tuple[int, int]]) -> list[set[int]] | None:
    """Successors of each part; None where there is a circle."""
    home = {u: k for k, part in enumerate(parts) for u in part}
    after: list[set[int]] = [set() for _ in parts]
    for a, b in edges:
        if home[a] != home[b]:
            after[home[a]].add(home[b])
    state = [0] * len(parts)

    def circle(k: int) -> bool:
        state[k] = 1
        found = any(state[t] == 1 or (state[t] == 0 and circle(t)) for t in after[k])
        state[k] = 2
        return found

    return None if any(state[k] == 0 and circle(k) for k in range(len(parts))) else after


def in_space(tree: Series) -> set[Plan]:
    """All partitions that the planner considers: cuts of series, branches together or apart, partings and meetings.

    Written down from the description, with every branch told apart and nothing pruned.
    """
    return {tuple(sorted(plan, key=min)) for plan in _series_plans(tree)}


def _series_plans(node: Series) -> list[Plan]:
    parts = [frozenset({c}) if isinstance(c, int) else frozenset(c.units) for c in node.children]
    n = len(parts)
    before: list[list[Plan]] = [[()]] + [[] for _ in range(n)]  # plans of the first q parts
    for q in range(1, n + 1):
        for p in range(q):
            whole = frozenset().union(*parts[p:q])
            before[q] += [(*plan, whole) for plan in before[p]]
            child = node.children[p]
            if isinstance(child, Parallel):
                members = [m for b in child.branches for m in b.members]
                after = frozenset().union(*parts[p + 1 : q])
                starts = [(plan, members, False) for plan in before[p]]
                for taken, rest in _partings(members) if p else ():
                    for first in range(p):
                        head = taken.union(*parts[first:p])
                        starts += [((*plan, head), rest, True) for plan in before[first]]
                for plan, left, all_whole in starts:
                    if q == p + 1:
                        before[q] += [plan + way for ways in _together(left) for way in ways]
                    elif after:
                        for taken, ways in _meetings(left, all_whole):
                            before[q] += [(*plan, *way, taken | after) for way in ways]
    return before[n]


def _partings(members: Sequence[Series]) -> list[tuple[frozenset[int], list[Series]]]:
    """Whole branches, and the beginning of at most one more, that go with what is before; what is left of them."""
    found = []
    for size in range(len(members)):
        for whole in itertools.combinations(range(len(members)), size):
            rest = [k for k in range(len(members)) if k not in whole]
            taken = frozenset(u for k in whole for u in members[k].units)
            if whole:
                found.append((taken, [members[k] for k in rest]))
            for k in rest:
                children = members[k].children
                for cut in range(1, len(children)):
                    others = [members[j] for j in rest if j != k]
                    head = taken | frozenset(Series(children[:cut]).units)
                    found.append((head, [*others, Series(children[cut:])]))
    return found


def _together(members: Sequence[Series]) -> list[list[Plan]]:
    """Branches beside each other: groups of several are one stage, a branch by itself is planned."""
    found = []
    for groups in partitions(range(len(members))):
        ways: list[Plan] = [()]
        for group in groups:
            if len(group) > 1:
                one = frozenset(u for k in group for u in members[k].units)
                ways = [(*w, one) for w in ways]
            else:
                ways = [w + p for w in ways for p in _series_plans(members[next(iter(group))])]
        found.append(ways)
    return found


def _meetings(members: Sequence[Series], all_whole: bool) -> list[tuple[frozenset[int], list[Plan]]]:
    """Whole branches, and the end of at most one more, that go with what follows; all of them whole if that is new."""
    found = []
    for size in range(len(members) + all_whole):
        for whole in itertools.combinations(range(len(members)), size):
            rest = [k for k in range(len(members)) if k not in whole]
            taken = frozenset(u for k in whole for u in members[k].units)
            if whole:
                for ways in _together([members[k] for k in rest]) if rest else [[()]]:
                    found.append((taken, ways))
            for k in rest:
                others = [members[j] for j in rest if j != k]
                children = members[k].children
                for cut in range(1, len(children)):
                    end = taken | frozenset(Series(children[cut:]).units)
                    heads = _series_plans(Series(children[:cut]))
                    for ways in _together(others):
                        found.append((end, [h + w for h in heads for w in ways]))
    return found


def best_tps(
    small: World, plans: Sequence[Plan], n_devices: int, ks: Sequence[int] = (1,), budget: float = np.inf
) -> float:
    """The least bottleneck over all partitions, devices, microbatches and ks, by trying all of them."""
    costs, best = small.costs, np.inf
    for plan in plans:
        after = quotient(plan, small.edges)
        if after is None or len(plan) > n_devices:
            continue
        masks = np.zeros((len(plan), costs.n_units), bool)
        for row, part in enumerate(plan):
            masks[row, sorted(part)] = True
        sets = costs.of_sets(masks)
        tps = {(b, d): costs.tps(sets, b, d) for b in costs.microbatches for d in costs.devices}
        order = topological(after)
        for ds in itertools.product(costs.devices, repeat=len(plan)):
            if sum(ds) > n_devices:
                continue
            for bs in itertools.product(costs.microbatches, repeat=len(plan)):
                slowest = max(tps[b, d][row] for row, (b, d) in enumerate(zip(bs, ds, strict=True)))
                if slowest >= best:
                    continue
                for k_of in itertools.product(ks, repeat=len(plan)):
                    if any(k > 1 and k * b > max(costs.microbatches) for k, b in zip(k_of, bs, strict=True)):
                        continue
                    if _fits(small, sets, order, after, ds, bs, k_of, budget):
                        best = float(slowest)
                        break
    return best


def _fits(small, sets, order, after, ds, bs, k_of, budget) -> bool:
    held = [0] * len(ds)
    for s in reversed(order):
        needed = [int(in_flight(k_of[s], bs[s], k_of[t], bs[t], held[t])) for t in after[s]]
        held[s] = max(needed, default=k_of[s] * bs[s])
        rounded = int(held_samples(held[s], bs[s], small.costs.global_batch))
        used = small.costs.memory(sets.at(slice(s, s + 1)), bs[s], ds[s], rounded)[0]
        if used > small.memory_bytes or held[s] > budget:
            return False
    return True


def topological(after: Sequence[set[int]]) -> list[int]:
    """Stages, each before its successors."""
    order: list[int] = []
    left = set(range(len(after)))
    while left:
        ready = sorted(k for k in left if not any(k in after[j] for j in left))
        order += ready
        left -= set(ready)
    return order
