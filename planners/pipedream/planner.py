"""`pipedream`: PipeDream's planner on the same costs as GraphPipe.

The graph is linearised, stages are replicated, and the schedule is synchronous 1F1B.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...profiles.graph import CostModel, Graph
from ...simulator.cluster import Cluster
from ...simulator.training.plan.file import TrainingPlan
from ..stages.costs import StageCosts
from ..stages.sequential.options import SequentialOptions
from ..stages.sequential.search import Stages, plan_sequential

__all__ = ["pipedream"]


def pipedream(
    graph: Graph,
    cluster: Cluster,
    *,
    global_batch: int,
    options: SequentialOptions | Mapping[str, Any] | None = None,
    costs: CostModel | None = None,
    progress: Callable[[str], None] | None = None,
) -> TrainingPlan:
    """Find the chain of stages with the least bottleneck, over all cuts of the graph's order and all replications.

    This is PipeDream (Narayanan et al., SOSP '19) as the GraphPipe paper compares it. The operators stand in one line.
    A stage is a run of them on some data-parallel devices, and each stage waits for the one before it, whether or not
    it reads anything from it. The schedule is synchronous 1F1B [NPS+21]. Every microbatch size is tried, and the plan
    whose simulated iteration is the shortest is returned.

    Parameters
    ----------
    graph : Graph
        The model, at any batch size. Its own order of operators is the line.
    cluster : Cluster
        The devices.
    global_batch : int
        Samples of one iteration.
    options : SequentialOptions or mapping, optional
        What the planner may choose from.
    costs : CostModel, optional
        Seconds of operators; by default a roofline of the cluster's devices.
    progress : callable, optional
        Called with a line of text at each step.

    Raises
    ------
    InputError
        If an option is unknown, or a batch is given that the graph cannot be scaled to.
    InfeasibleError
        If nothing fits in memory.
    """
    chosen = SequentialOptions.of(options)
    known: list[Stages] = []

    def candidates(priced: StageCosts, _microbatch: int) -> tuple[Stages, float]:
        if not known:
            known.append(runs(priced))
        return known[0], np.inf

    return plan_sequential(
        graph, cluster, global_batch=global_batch, options=chosen, costs=costs, name="pipedream",
        candidates=candidates, progress=progress,
    )  # fmt: skip


def runs(costs: StageCosts) -> Stages:
    """All runs of units in their own order, as candidate stages. State s holds the last s units."""
    n = costs.n_units
    ranges = costs.of_ranges()
    high = np.repeat(np.arange(1, n + 1), np.arange(1, n + 1))
    low = np.concatenate([np.arange(s) for s in range(1, n + 1)])
    first, last = n - high, n - low - 1

    def units(pairs: list[int]) -> list[tuple[int, ...]]:
        return [tuple(range(int(first[p]), int(last[p]) + 1)) for p in pairs]

    return Stages(low, high, n + 1, ranges.at((first, last)), units)
