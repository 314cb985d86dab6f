"""Stages of a partition as a graph: who feeds whom, what each has in flight, and how long an iteration is about."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .in_flight import Successor, held_samples, in_flight, last_in_flight
from .rebuild import Stage
from .stage_costs import StageCosts

__all__ = ["StageGraph", "stage_graph"]


@dataclass(frozen=True)
class StageGraph:
    """Stages in a topological order.

    Parameters
    ----------
    stages : tuple of Stage
        With what their true successors want in flight.
    successors : tuple of tuple of int
        Of each.
    forward_s, backward_s, once_s : tuple of float
        Seconds of a microbatch with its messages, and of what comes once an iteration.
    global_batch : int
        B.
    """

    stages: tuple[Stage, ...]
    successors: tuple[tuple[int, ...], ...]
    forward_s: tuple[float, ...]
    backward_s: tuple[float, ...]
    once_s: tuple[float, ...]
    global_batch: int

    @property
    def held(self) -> tuple[int, ...]:
        """Samples that each holds: whole microbatches."""
        return tuple(int(held_samples(s.in_flight, s.config.microbatch, self.global_batch)) for s in self.stages)

    @property
    def depth(self) -> int:
        """Stages on the longest path."""
        far = [1] * len(self.stages)
        for x in reversed(range(len(far))):
            far[x] = 1 + max((far[y] for y in self.successors[x]), default=0)
        return max(far)

    @property
    def about_s(self) -> float:
        """Seconds of an iteration if no stage waits once it has begun, but for the slowest of the way in and out.

        Each stage begins when the first samples have come down the longest path to it, works without a break, and ends
        when its last gradients have gone back up the longest path: the longest of these.
        """
        turns = [self.global_batch // s.config.microbatch for s in self.stages]
        arrive, drain = [0.0] * len(turns), [0.0] * len(turns)
        for x, after in enumerate(self.successors):
            for y in after:  # y's first pass wants as many samples as its microbatch has
                passes = max(1, self.stages[y].config.microbatch // self.stages[x].config.microbatch)
                arrive[y] = max(arrive[y], arrive[x] + passes * self.forward_s[x])
                drain[y] = max(drain[y], drain[x] + passes * self.backward_s[x])
        return max(
            a + n * (f + b) + d + once
            for a, n, f, b, d, once in zip(
                arrive, turns, self.forward_s, self.backward_s, drain, self.once_s, strict=True
            )
        )


def stage_graph(
    costs: StageCosts, stages: Sequence[Stage], edges: Sequence[tuple[int, int]], sequential: bool = False
) -> StageGraph:
    """Order stages, and work out what each must have in flight for its true successors.

    Parameters
    ----------
    costs : StageCosts
        Prices.
    stages : sequence of Stage
        In any order.
    edges : sequence of (int, int)
        Units that read what others make.
    sequential : bool
        Whether each stage waits for the one before it.
    """
    home = {u: s for s, stage in enumerate(stages) for u in stage.units}
    after: list[set[int]] = [set() for _ in stages]
    waits: list[set[int]] = [set() for _ in stages]
    for a, b in edges:
        if home[a] != home[b]:
            after[home[a]].add(home[b])
            waits[home[b]].add(home[a])
    ready = [(stages[s].units[0], s) for s in range(len(stages)) if not waits[s]]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, s = heapq.heappop(ready)
        order.append(s)
        for t in after[s]:
            waits[t].discard(s)
            if not waits[t]:
                heapq.heappush(ready, (stages[t].units[0], t))
    place = {s: n for n, s in enumerate(order)}
    successors = [{place[t] for t in after[s]} for s in order]
    if sequential:
        for n in range(len(order) - 1):
            successors[n].add(n + 1)
    placed = [stages[s] for s in order]
    for n in reversed(range(len(placed))):
        config = placed[n].config
        needed = [
            int(in_flight(config.k, config.microbatch, y.k, y.microbatch, y.in_flight))
            for y in (_successor(placed[t]) for t in successors[n])
        ]
        placed[n] = replace(placed[n], in_flight=max(needed, default=last_in_flight(config)))
    return StageGraph(
        tuple(placed), tuple(tuple(sorted(s)) for s in successors), *_seconds(costs, placed), costs.global_batch
    )


def _successor(stage: Stage) -> Successor:
    return Successor(stage.config.microbatch, stage.config.k, stage.in_flight)


def _seconds(
    costs: StageCosts, stages: Sequence[Stage]
) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    masks = np.zeros((len(stages), costs.n_units), bool)
    for row, stage in enumerate(stages):
        masks[row, list(stage.units)] = True
    sets = costs.of_sets(masks)
    forward, backward, once = list[float](), list[float](), list[float]()
    for row, stage in enumerate(stages):
        one, b, d = sets.at(slice(row, row + 1)), stage.config.microbatch, stage.devices
        column = costs.column(b, d)
        moved = 0.0 if costs.overlap else float(costs.transfer_s(one, b, d)[0])
        reduce, step = costs.iteration_s(one, d)
        forward.append(float(one.forward_s[0, column]) + moved / 2)
        backward.append(float(one.backward_input_s[0, column] + one.backward_weight_s[0, column]) + moved / 2)
        once.append(float(reduce[0] + step[0]))
    return tuple(forward), tuple(backward), tuple(once)
