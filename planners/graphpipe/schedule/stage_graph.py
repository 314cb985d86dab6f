"""`StageGraph`: the stages of a partition as a graph, with samples in flight and an estimate of the iteration."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..rebuild import Stage
from .in_flight import Successor, held_samples, in_flight, last_in_flight

__all__ = ["StageGraph", "stage_graph"]


@dataclass(frozen=True)
class StageGraph:
    """Stages in a topological order.

    Parameters
    ----------
    stages : tuple of Stage
        The stages; `in_flight` of each is what its true successors ask for.
    successors : tuple of tuple of int
        Successors of each stage.
    global_batch : int
        B, samples of one iteration.
    """

    stages: tuple[Stage, ...]
    successors: tuple[tuple[int, ...], ...]
    global_batch: int

    @property
    def held(self) -> tuple[int, ...]:
        """Samples that each stage holds, in whole microbatches."""
        return tuple(int(held_samples(s.in_flight, s.config.microbatch, self.global_batch)) for s in self.stages)

    @property
    def depth(self) -> int:
        """Number of stages on the longest path."""
        far = [1] * len(self.stages)
        for x in reversed(range(len(far))):
            far[x] = 1 + max((far[y] for y in self.successors[x]), default=0)
        return max(far)

    @property
    def about_s(self) -> float:
        """Estimated seconds of an iteration, if no stage waits once it has begun.

        Each stage begins when its first samples have come down the longest path to it. It then works without a break,
        or as fast as its messages arrive, and is done when its last gradients have gone back up the longest path. The
        estimate is the largest of these times over all stages.
        """
        turns = [self.global_batch // s.config.microbatch for s in self.stages]
        arrive, drain = [0.0] * len(turns), [0.0] * len(turns)
        for x, after in enumerate(self.successors):
            for y in after:  # y's first pass wants as many samples as its microbatch has
                passes = max(1, self.stages[y].config.microbatch // self.stages[x].config.microbatch)
                arrive[y] = max(arrive[y], arrive[x] + passes * self.stages[x].seconds[0])
                drain[y] = max(drain[y], drain[x] + passes * self.stages[x].seconds[1])
        return max(
            a + n * max(stage.seconds[0] + stage.seconds[1], stage.seconds[2]) + d + stage.seconds[3]
            for a, n, stage, d in zip(arrive, turns, self.stages, drain, strict=True)
        )


def stage_graph(
    stages: Sequence[Stage], edges: Sequence[tuple[int, int]], global_batch: int, sequential: bool = False
) -> StageGraph:
    """Put stages into a topological order, and compute what each must have in flight for its true successors.

    Parameters
    ----------
    stages : sequence of Stage
        The stages, in any order.
    edges : sequence of (int, int)
        Edges between units (see `unit_edges`).
    global_batch : int
        B, samples of one iteration.
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
    # Of the stages that are ready, the one with the first unit comes next: a fixed order, close to the graph's own.
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
    return StageGraph(tuple(placed), tuple(tuple(sorted(s)) for s in successors), global_batch)


def _successor(stage: Stage) -> Successor:
    return Successor(stage.config.microbatch, stage.config.k, stage.in_flight)
