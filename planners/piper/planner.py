"""`piper`: Piper's planner on the same costs as GraphPipe.

Stages are differences of downsets and stand in one line; the schedule is synchronous 1F1B.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...profiles.graph import CostModel, Graph
from ...simulator.cluster import Cluster
from ...simulator.training.plan.file import TrainingPlan
from ..pipedream.planner import runs
from ..stages.costs import SetCosts, StageCosts
from ..stages.sequential.options import SequentialOptions
from ..stages.sequential.search import Stages, least_bottleneck, plan_sequential
from ..stages.units import unit_edges
from .downsets import Downsets, alike, downsets

__all__ = ["piper"]

CHUNK = 100_000
"""Sets that are priced at once: a few hundred megabytes of temporary arrays for graphs of some hundred units."""


def piper(
    graph: Graph,
    cluster: Cluster,
    *,
    global_batch: int,
    options: SequentialOptions | Mapping[str, Any] | None = None,
    costs: CostModel | None = None,
    progress: Callable[[str], None] | None = None,
) -> TrainingPlan:
    """Find the line of stages with the least bottleneck, over all partitions of the graph into convex stages.

    This is Piper (Tarnawski et al., NeurIPS '21) as the GraphPipe paper compares it. A stage may hold parts of several
    branches, and runs after the stage before it. Stages use data parallelism, but no tensor parallelism and no
    recomputation (`piper_partition` has both, on Piper's own inputs). Every microbatch size is tried, and the plan
    whose simulated iteration is the shortest is returned.

    Parameters
    ----------
    graph : Graph
        The model, at any batch size.
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
    LimitError
        If there are more downsets than `max_states`: whether there is a plan is not known.
    """
    chosen = SequentialOptions.of(options)
    memory = cluster.spec.memory_bytes * chosen.memory_fraction
    known: list[Downsets] = []

    def candidates(priced: StageCosts, microbatch: int) -> tuple[Stages, float]:
        if not known:
            edges, what = unit_edges(graph, priced.units), f"piper: {graph.name!r}"
            known.append(downsets(priced.n_units, edges, chosen.max_states, what, twins(priced, edges), "max_states"))
        # A chain is one of Piper's pipelines: nothing slower than the best chain needs to be looked at.
        chain = least_bottleneck(priced, runs(priced), microbatch, memory, cluster.n_devices)
        least = np.inf if chain is None else chain.bottleneck_s
        return differences(priced, known[0], microbatch, least), least

    return plan_sequential(
        graph, cluster, global_batch=global_batch, options=chosen, costs=costs, name="piper",
        candidates=candidates, progress=progress,
    )  # fmt: skip


def differences(costs: StageCosts, states: Downsets, microbatch: int, threshold: float) -> Stages:
    """All differences of two downsets that can be a stage under a threshold of seconds per sample."""
    n = costs.cluster.n_devices
    degrees = [d for d in costs.devices if d <= n and costs.column(microbatch, d) >= 0]
    columns = [costs.column(microbatch, d) for d in degrees]
    each = costs.seconds.sum(axis=0)[:, columns] / microbatch
    work = (each * np.array(degrees, float)).min(axis=1)
    low, high = states.pairs(each, work, degrees, threshold, n)
    parts = [
        costs.of_sets(states.members[high[at : at + CHUNK]] & ~states.members[low[at : at + CHUNK]])
        for at in range(0, len(low), CHUNK)
    ]

    def units(pairs: list[int]) -> list[tuple[int, ...]]:
        turn, found = list(range(costs.n_units)), list[tuple[int, ...]]()
        for p in pairs:  # stage by stage, from representatives back to the very branches
            inside = np.flatnonzero(states.members[high[p]] & ~states.members[low[p]])
            found.append(tuple(sorted(turn[v] for v in inside)))
            turn = [turn[v] for v in states.sorting(int(low[p]))]
        return found

    return Stages(states.representative[low], high, len(states.members), SetCosts.joined(parts), units)


def twins(costs: StageCosts, edges: Sequence[tuple[int, int]]) -> list[tuple[tuple[int, ...], ...]]:
    """Groups of branches that can be exchanged without changing any cost or edge."""
    found: list[tuple[tuple[int, ...], ...]] = []
    for group in alike(costs.n_units, edges):
        left = [tuple(branch) for branch in group]
        while left:
            first = left[0]
            same = [first, *(other for other in left[1:] if _exchangeable(costs, edges, first, other))]
            left = [branch for branch in left if branch not in same]
            if len(same) > 1:
                found.append(tuple(same))
    return found


def _exchangeable(
    costs: StageCosts, edges: Sequence[tuple[int, int]], one: tuple[int, ...], other: tuple[int, ...]
) -> bool:
    turn = np.arange(costs.n_units)
    turn[list(one)], turn[list(other)] = other, one
    if {(int(turn[a]), int(turn[b])) for a, b in edges} != set(edges):
        return False
    if not np.array_equal(costs.seconds[:, turn], costs.seconds) or not np.array_equal(costs.work[turn], costs.work):
        return False
    tables = (
        (costs.parameters, costs.parameter_sizes), (costs.kept, costs.kept_sizes[None]),
        (np.concatenate([costs.makers, costs.readers], axis=1), costs.result_sizes),
    )  # fmt: skip
    for table, sizes in tables:
        columns = np.concatenate([turn + at for at in range(0, table.shape[1], costs.n_units)])
        if _rows(table[:, columns], sizes) != _rows(table, sizes):
            return False
    return True


def _rows(table: npt.NDArray[np.bool_], sizes: npt.NDArray[np.float64]) -> list[bytes]:
    return sorted(row.tobytes() + size.tobytes() for row, size in zip(table, sizes.T, strict=True))
