"""`Search`: do stages exist under a threshold of seconds per sample? (Algorithm 2's SEARCHSTAGEGRAPH and DP)

The paper's dynamic programme runs backwards. For each number of samples that the next stage has in flight, it asks how
few the first stage can have. Here the programme runs forwards and computes how many samples the next stage *may* have
in flight (a tolerance, see `kernels`). That is one number where the paper has a table. Nothing is lost: Table 3.2 adds
the same offset to any number in flight, so the stages before a cut fit if and only if the next stage stays within its
tolerance.

The branches of a fork may differ in their configurations: each is given the tolerance of the stage before the fork. The
paper requires equal configurations.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from .candidates import Candidates
from .kernels import ANY, NONE, after_stage, count_products, end_stages, joined, stage_totals
from .nodes import Fork, ParallelNode, SeriesNode
from .schedule.configs import Configs

__all__ = ["ParallelState", "Search", "SeriesState", "Source"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Source:
    """What comes before a fork.

    Parameters
    ----------
    exit : bool
        False: one stage, of this configuration. True: other branches come directly before the fork, and the first
        stages after it all have this configuration.
    config : int
        Number of the configuration; −1: nothing comes before.
    tolerance : int
        Samples in flight that are tolerated: of the stage itself, or of the first stages after the fork.
    """

    exit: bool
    config: int
    tolerance: int


@dataclass(eq=False)
class ParallelState:
    """The solved branches of a parallel part, after one source and under one threshold.

    Parameters
    ----------
    source : ndarray, shape (n_configs + 1,)
        Samples that their first stages may have in flight.
    classes : list of SeriesState
        One solved branch of each class.
    single, group, products : ndarray
        See `kernels.count_products`.
    exits : ndarray, shape (1 + n_joins, n_configs + 1, n_devices + 1)
        Tolerance of what follows all branches, and of each join.
    """

    source: Ints
    classes: list[SeriesState]
    single: Ints
    group: Ints
    products: Ints
    exits: Ints


@dataclass(eq=False)
class SeriesState:
    """A solved series, after one source and under one threshold.

    Parameters
    ----------
    reached : ndarray, shape (n_places, n_configs + 1, n_devices + 1)
        At each place, samples that the stage which begins there may have in flight.
    made : ndarray, shape (n_rows, n_configs, n_devices + 1)
        At each row, tolerance of a last stage that ends there.
    forks : dict
        Number of a fork -> the sources before it, the devices used up to it, and its branches, in the order tried.
    """

    reached: Ints
    made: Ints
    forks: dict[int, list[tuple[Source, list[int], ParallelState]]] = field(
        default_factory=dict[int, list[tuple[Source, list[int], ParallelState]]]
    )


class Search:
    """All plans of a tree with some configurations, under any threshold.

    Parameters
    ----------
    candidates : Candidates
        The candidate stages.
    configs : Configs
        Configurations that they may have.
    n_devices : int
        Number of devices; a plan may leave some idle.
    """

    def __init__(self, candidates: Candidates, configs: Configs, n_devices: int) -> None:
        self.candidates, self.configs, self.n_devices = candidates, configs, n_devices
        self.solved = 0
        self._known: dict[tuple[int, bytes], SeriesState] = {}
        self._limit, self._budget = 0.0, ANY

    def fits(self, limit: float, budget: int = ANY) -> bool:
        """Whether there is a plan in which no stage takes more than `limit` seconds per sample.

        No stage may have more than `budget` samples in flight.
        """
        return bool(self.devices_of(self.solve(limit, budget)))

    def devices_of(self, state: SeriesState) -> list[int]:
        """Numbers of devices with which there is a plan of the whole tree, ascending."""
        return np.flatnonzero(state.reached[self.candidates.root.n, self.configs.end] >= 0).tolist()

    @property
    def bounds(self) -> tuple[float, int]:
        """The threshold and the budget that were solved last."""
        return self._limit, self._budget

    def solve(self, limit: float, budget: int = ANY) -> SeriesState:
        """Solve the whole tree under a threshold and a budget."""
        self._known.clear()
        self._limit, self._budget = limit, budget
        self.solved += 1
        start = np.full(self.configs.end + 1, ANY, np.int64)
        start[-1] = NONE
        return self._series(self.candidates.root, start)

    def _series(self, node: SeriesNode, source: Ints) -> SeriesState:
        key = (id(node), source.tobytes())
        if key in self._known:
            return self._known[key]
        found, configs, top = self.candidates, self.configs, self.n_devices + 1
        reached = np.full((node.n_places, configs.end + 1, top), NONE, np.int64)
        reached[0, :, 0] = source
        made = np.full((len(node.ends), configs.end, top), NONE, np.int64)
        state = self._known[key] = SeriesState(reached, made)
        for q in range(1, node.n + 1):
            forks = [(number, fork) for number, fork in enumerate(node.forks) if fork.part == q - 1]
            for row in (q, *(fork.row for _, fork in forks if fork.row > node.n)):
                end_stages(
                    reached, *node.ends[row], found.tps, found.holds, configs.sizes, found.degrees, self._limit,
                    self._budget, made[row],
                )  # fmt: skip
            after_stage(made[q], configs.offset, configs.least, reached[q])
            for number, fork in forks:
                self._fork(node, number, fork, state)
        return state

    def _fork(self, node: SeriesNode, number: int, fork: Fork, state: SeriesState) -> None:
        """Solve the branches of a fork after every source that may come before them, and record what they reach."""
        branches, forks = fork.branches, list[tuple[Source, list[int], ParallelState]]()
        for source, first, devices in self._sources(node, fork, state):
            after = self._parallel(branches, first)
            if fork.whole:  # the stage before feeds what follows the branches as well, or is a last stage itself
                feeds = first.copy()
                feeds[-1] = max(source.tolerance - int(self.configs.offset[source.config, -1]), NONE)
                after = replace(after, exits=np.minimum(after.exits, feeds[:, None]))
            forks.append((source, devices, after))
            places = [fork.part + 1, *(join.place for join in branches.joins)]
            for d in devices:
                have = state.reached[places, :, d:]
                state.reached[places, :, d:] = np.maximum(have, after.exits[:, :, : self.n_devices + 1 - d])
        state.forks[number] = forks

    def _sources(self, node: SeriesNode, fork: Fork, state: SeriesState) -> list[tuple[Source, Ints, list[int]]]:
        """The sources that may come before a fork.

        For each: the source, samples that the first stages after it may have in flight, and the devices used so far.
        """
        configs = self.configs
        if fork.part == 0:
            start = state.reached[0, :, 0].copy()
            return [(Source(False, -1, ANY), start, [0])] if (start >= 0).any() else []
        ways: dict[Source, list[int]] = {}
        for x, d in np.argwhere(state.made[fork.row] > 0):
            ways.setdefault(Source(False, int(x), int(state.made[fork.row, x, d])), []).append(int(d))
        found: list[tuple[Source, Ints, list[int]]] = []
        for source, devices in ways.items():
            first = source.tolerance - configs.offset[source.config]
            first = np.where(first >= configs.least, first, NONE)
            first[-1] = NONE
            found.append((source, first, devices))
        earlier = [k for k, other in enumerate(node.forks) if other.part == fork.part - 1]
        if earlier and fork.row == fork.part:
            exits: dict[Source, list[int]] = {}
            for _, devices, before in (way for k in earlier for way in state.forks[k]):
                for d in devices:
                    for y, e in np.argwhere(before.exits[0][:-1] >= 0):
                        if d + e <= self.n_devices:
                            source = Source(True, int(y), int(before.exits[0][y, e]))
                            exits.setdefault(source, []).append(int(d + e))
            for source, devices in exits.items():
                first = np.full(configs.end + 1, NONE, np.int64)
                first[source.config] = source.tolerance
                found.append((source, first, sorted(set(devices))))
        return found

    def _parallel(self, node: ParallelNode, source: Ints) -> ParallelState:
        found, configs, top = self.candidates, self.configs, self.n_devices + 1
        classes = [self._series(c, source) for c in node.classes]
        single = np.stack([s.reached[c.n] for s, c in zip(classes, node.classes, strict=True)])
        shape = (node.every + 1, configs.end + 1, top)
        group, possible = np.full(shape, NONE, np.int64), np.zeros(shape[0], np.int64)
        for number, candidate in enumerate(node.groups):
            if candidate >= 0:
                possible[number] = stage_totals(
                    source, int(candidate), found.tps, found.holds, configs.sizes, found.degrees, self._limit,
                    self._budget, configs.offset, configs.least, group[number],
                )  # fmt: skip
        products = np.empty(shape, np.int64)
        count_products(single, group, possible, node.radix, products)
        exits = np.full((1 + len(node.joins), *shape[1:]), NONE, np.int64)
        exits[0] = products[node.every]
        stride = node.stride
        for at, join in enumerate(node.joins, 1):
            rest = node.every - join.whole - (stride[join.branch] if join.branch >= 0 else 0)
            if join.branch >= 0:
                joined(classes[join.branch].reached[join.cut], products[rest], exits[at])
            else:
                exits[at] = products[rest]
            if join.whole:  # what comes before the fork feeds the join as well
                exits[at] = np.minimum(exits[at], source[:, None])
        return ParallelState(source, classes, single, group, products, exits)
