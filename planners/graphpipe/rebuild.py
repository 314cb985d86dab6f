"""`rebuild`: read the stages off a solved search, by walking its tables backwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .nodes import Fork, Join, ParallelNode, SeriesNode
from .schedule.in_flight import Config
from .search import ParallelState, Search, SeriesState, Source

__all__ = ["Stage", "rebuild"]


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a partition.

    Parameters
    ----------
    units : tuple of int
        The units that it computes.
    config : Config
        The stage's microbatch size and its k.
    devices : int
        Data-parallel degree.
    in_flight : int
        Samples in flight, by Table 3.2; see `in_flight.held_samples`.
    tps : float
        Seconds per sample.
    seconds : (float, float, float, float)
        See `Candidates.seconds`.
    """

    units: tuple[int, ...]
    config: Config
    devices: int
    in_flight: int
    tps: float
    seconds: tuple[float, float, float, float]


First = tuple[int, int]  # number of the configuration, samples in flight


class _Builder:
    def __init__(self, search: Search) -> None:
        self.search, self.stages = search, list[Stage]()
        self.found, self.configs = search.candidates, search.configs

    def series(self, node: SeriesNode, state: SeriesState, q: int, d: int, y: int, need: int) -> list[First]:
        """Add the stages of the first q parts, on d devices, that come before a stage y with `need` samples in flight.

        Returns
        -------
        list of (int, int)
            Configuration and samples in flight of the first stages of the series, which its source feeds.
        """
        if q == 0:
            return [(y, need)]
        for s in range(self.configs.end):
            own = need + int(self.configs.offset[s, y])
            if state.made[q, s, d] >= own:
                return self._stage(node, state, q, d, s, own)
        for number, fork in enumerate(node.forks):
            for source, devices, after in state.forks[number] if fork.part == q - 1 else ():
                for before in devices:
                    if before <= d and after.exits[0, y, d - before] >= need:
                        firsts = self._branches(fork.branches, after, fork.branches.every, d - before, y, need)
                        firsts += [(y, need)] if fork.whole else []
                        return self._source(node, state, fork, before, source, firsts)
        raise RuntimeError("graphpipe: a plan that was found could not be rebuilt")

    def _source(
        self, node: SeriesNode, state: SeriesState, fork: Fork, d: int, source: Source, firsts: Sequence[First]
    ) -> list[First]:
        x = source.config
        if x < 0:
            return list(firsts)
        if source.exit:
            return self.series(node, state, fork.part, d, x, max(need for _, need in firsts))
        need = max(need + int(self.configs.offset[x, y]) for y, need in firsts)
        return self._stage(node, state, fork.row, d, x, need, fork)

    def _stage(
        self, node: SeriesNode, state: SeriesState, row: int, d: int, s: int, own: int, fork: Fork | None = None
    ) -> list[First]:
        """Add a stage of configuration s that ends in a row, and all stages before it.

        Of the stages that the tables allow, the quickest is taken: any of them keeps the threshold, and the quickest
        leaves the most slack.
        """
        found, size = self.found, int(self.configs.sizes[s])
        options, places = node.ends[row]
        best: tuple[float, int, int] | None = None
        limit, budget = self.search.bounds
        for o, (candidate, place) in enumerate(zip(options, places, strict=True)):
            for g, n in enumerate(found.degrees.tolist()):
                tps, holds = found.tps[candidate, g, size], min(found.holds[candidate, g, size], budget)
                if n <= d and tps <= limit and holds >= own and state.reached[place, s, d - n] >= own:
                    best = min(best or (np.inf, 0, 0), (float(tps), o, g))
        if best is None:
            raise RuntimeError("graphpipe: a stage that was found could not be rebuilt")
        _, o, g = best
        place, d = int(places[o]), d - int(found.degrees[g])
        if place <= node.n:
            last, taken = (fork.part, fork.taken) if fork is not None else (row, ())
            self._add(node.units(place, last) + taken, int(options[o]), g, s, own)
            return self.series(node, state, place, d, s, own)
        units, firsts = self._join(node, state, *node.joins[place], row, d, s, own)
        self._add(units, int(options[o]), g, s, own)
        return firsts

    def _add(self, units: tuple[int, ...], candidate: int, g: int, s: int, own: int) -> None:
        at = (candidate, g, int(self.configs.sizes[s]))
        forward, backward, received, once = (float(table[at]) for table in self.found.seconds)
        self.stages.append(
            Stage(
                units, self.configs.all[s], int(self.found.degrees[g]), own, float(self.found.tps[at]),
                (forward, backward, received, once),
            )
        )  # fmt: skip

    def _join(
        self, node: SeriesNode, state: SeriesState, number: int, join: Join, q: int, d: int, s: int, own: int
    ) -> tuple[tuple[int, ...], list[First]]:
        """The units of a stage in which branches meet, and the first stages of its branches."""
        fork = node.forks[number]
        branches = fork.branches
        at = 1 + branches.joins.index(join)
        for source, devices, after in state.forks[number]:
            for before in devices:
                if before <= d and after.exits[at, s, d - before] >= own:
                    taken = _Dealer(branches)
                    whole = taken.take(join.whole)
                    cut = taken.one(join.branch) if join.branch >= 0 else None
                    units = tuple(u for m in whole for u in m.series.units)
                    units += () if cut is None else cut.units(join.cut, cut.n)
                    units += node.units(fork.part + 1, q)
                    firsts = self._rest(branches, after, join, taken, cut, d - before, s, own)
                    firsts += [(s, own)] if join.whole or fork.whole else []
                    return units, self._source(node, state, fork, before, source, firsts)
        raise RuntimeError("graphpipe: a join that was found could not be rebuilt")

    def _rest(
        self, branches: ParallelNode, after: ParallelState, join: Join, taken: _Dealer, cut: SeriesNode | None, d: int,
        s: int, own: int,
    ) -> list[First]:  # fmt: skip
        rest = branches.every - join.whole
        if cut is None:
            return self._branches(branches, after, rest, d, s, own, taken)
        rest -= branches.stride[join.branch]
        state = after.classes[join.branch]
        for e in range(d + 1):
            if state.reached[join.cut, s, e] >= own and after.products[rest, s, d - e] >= own:
                firsts = self.series(cut, state, join.cut, e, s, own)
                return firsts + self._branches(branches, after, rest, d - e, s, own, taken)
        raise RuntimeError("graphpipe: branches that were found could not be rebuilt")

    def _branches(
        self, node: ParallelNode, after: ParallelState, number: int, d: int, y: int, need: int,
        dealer: _Dealer | None = None,
    ) -> list[First]:  # fmt: skip
        """Add the stages of the branches of a count, on d devices, before a stage y with `need` in flight."""
        taken, firsts, stride = dealer or _Dealer(node), list[First](), node.stride
        while number:
            counts = node.counts(number)
            first = next(c for c, count in enumerate(counts) if count)
            step = self._step(node, after, number, counts, first, d, y, need)
            if step is None:
                raise RuntimeError("graphpipe: branches that were found could not be rebuilt")
            used, e = step
            if used == stride[first]:
                firsts += self.series(taken.one(first), after.classes[first], node.classes[first].n, e, y, need)
            else:
                firsts.append(self._group(node, after, used, e, y, need, taken))
            number, d = number - used, d - e
        return firsts

    def _step(
        self, node: ParallelNode, after: ParallelState, number: int, counts: Sequence[int], first: int, d: int, y: int,
        need: int,
    ) -> tuple[int, int] | None:  # fmt: skip
        """Which branches come next, and on how many devices: the split that is closest to even.

        All splits keep the threshold; an even one leaves no branch with far more devices than its share.
        """
        single = node.stride[first]
        ways = [(single, after.single[first])]
        for number_of in range(1, number + 1):
            inside = all(a <= b for a, b in zip(node.counts(number_of), counts, strict=True))
            if inside and number_of != single and node.counts(number_of)[first] and node.groups[number_of] >= 0:
                ways.append((number_of, after.group[number_of]))
        total = sum(counts)
        found: list[tuple[float, int, int]] = []
        for used, table in ways:
            share = d * sum(node.counts(used)) / total
            for e in range(d + 1):
                if table[y, e] >= need and after.products[number - used, y, d - e] >= need:
                    found.append((abs(e - share), used, e))
        return min(found)[1:] if found else None

    def _group(
        self, node: ParallelNode, after: ParallelState, used: int, e: int, y: int, need: int, taken: _Dealer
    ) -> First:
        found, candidate = self.found, int(node.groups[used])
        g = int(np.flatnonzero(found.degrees == e)[0])
        limit, budget = self.search.bounds
        ways: list[tuple[float, int, int]] = []
        for s in range(self.configs.end):
            own, size = need + int(self.configs.offset[s, y]), int(self.configs.sizes[s])
            tps, holds = float(found.tps[candidate, g, size]), min(int(found.holds[candidate, g, size]), budget)
            if tps <= limit and min(holds, int(after.source[s])) >= own:
                ways.append((tps, s, own))
        _, s, own = min(ways)
        units = tuple(u for m in taken.take(used) for u in m.series.units)
        self._add(units, candidate, g, s, own)
        return s, own


class _Dealer:
    """Hands out the branches of each class one after the other, so that no two stages get the same one."""

    def __init__(self, node: ParallelNode) -> None:
        self.node, self.at = node, [0] * len(node.classes)

    def one(self, branch: int) -> SeriesNode:
        self.at[branch] += 1
        return self.node.members[branch][self.at[branch] - 1]

    def take(self, number: int) -> list[SeriesNode]:
        return [self.one(c) for c, count in enumerate(self.node.counts(number)) for _ in range(count)]


def rebuild(search: Search, limit: float, budget: int) -> list[tuple[Stage, ...]]:
    """Plans under a threshold and a budget of samples in flight, each with its stages in any order.

    There are at most two: one on the most devices that can be used, and one on the fewest, which has fewer stages and
    so a shorter warm-up.
    """
    state, root, end = search.solve(limit, budget), search.candidates.root, search.configs.end
    devices = search.devices_of(state)
    found: list[tuple[Stage, ...]] = []
    for d in sorted({devices[0], devices[-1]}, reverse=True) if devices else []:
        builder = _Builder(search)
        builder.series(root, state, root.n, d, end, 0)
        found.append(tuple(builder.stages))
    return found
