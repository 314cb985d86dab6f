"""`plan`: GraphPipe's planner, from a training graph and a cluster to a `TrainingPlan` whose stages form a graph."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...profiles.graph import CostModel, Graph
from ...simulator.cluster import Cluster
from ...simulator.training.plan.file import TrainingPlan
from ..stages.checks import check_stage_graph
from .candidates import candidates_of
from .infeasible import why_infeasible
from .options import GraphPipeOptions
from .sweep import Way, sweep
from .task import Task

__all__ = ["plan"]

Progress = Callable[[str], None]
FAR = 1.5
"""A plan is simulated only if its estimated seconds are at most this many times the best estimate. A guess: estimates
take every message for one between nodes, and err by far less than half."""


def plan(
    graph: Graph,
    cluster: Cluster,
    *,
    global_batch: int,
    options: GraphPipeOptions | Mapping[str, Any] | None = None,
    costs: CostModel | None = None,
    progress: Progress | None = None,
) -> TrainingPlan:
    """Plan a pipeline whose stages form a graph (GraphPipe, thesis ch. 3).

    Each stage has its own devices, microbatch size and schedule.

    Parameters
    ----------
    graph : Graph
        The model, at any batch size.
    cluster : Cluster
        The devices.
    global_batch : int
        Samples of one iteration.
    options : GraphPipeOptions or mapping, optional
        What the planner may choose from.
    costs : CostModel, optional
        Seconds of operators; by default a roofline of the cluster's devices.
    progress : callable, optional
        Called with a line of text at each step.

    Returns
    -------
    TrainingPlan
        A plan that meets C1–C5 and Eq. 3.2. Its ``predicted`` holds ``tps`` and the simulated ``seconds``, among
        others.

    Raises
    ------
    InputError
        If an option is unknown, or a batch is given that the graph cannot be scaled to.
    InfeasibleError
        If no plan fits. The message says the smallest change with which one would.
    LimitError
        If no plan that was searched fits, but our own limits left out candidate stages.
    """
    started = time.perf_counter()
    chosen = GraphPipeOptions.of(options)
    task = Task.of(graph, cluster, global_batch, chosen, costs)
    ways, solved = list[Way](), 0
    for tree in task.trees:
        candidates = candidates_of(tree, task.costs, task.memory_bytes)
        if progress is not None:
            progress(f"graphpipe: {task.costs.n_units} units, {len(candidates.units)} candidate stages")
        ways, tried = sweep(
            candidates, cluster.n_devices, global_batch, ks=task.ks, same_microbatch=chosen.same_microbatch,
            trade=chosen.objective == "iteration", about=task.about_s, known=ways,
        )  # fmt: skip
        solved += tried
    if not ways:
        raise why_infeasible(task.trees, task.costs, task.ks, task.memory_bytes)
    best_way, least = ways[0], float("inf")
    for way in _promising(ways, chosen.simulated):
        seconds = task.simulated_s(way)
        if progress is not None:
            progress(f"graphpipe: {len(way.partition.stages)} stages, simulated {seconds:.6g} s")
        if seconds < least:
            best_way, least = way, seconds
    best = task.emit(best_way, solved)
    check_stage_graph(best, graph, memory_bytes=task.memory_bytes)
    spent = time.perf_counter() - started
    return best.model_copy(update={"planner": best.planner.model_copy(update={"seconds": spent})})


def _promising(ways: Sequence[Way], most: int) -> list[Way]:
    """Choose the plans to simulate: half of them by their estimates, the others from each microbatch size in turn.

    Of plans with the same stages, one is kept. The estimates take every message for one between nodes and so favour few
    stages; taking turns gives the other microbatch sizes a chance. Plans with far worse estimates are left out.
    """
    seen: set[frozenset[object]] = set()
    turns: dict[int, int] = {}
    ranked: list[tuple[int, float, Way]] = []
    for way in ways:
        key = frozenset((s.units, s.devices, s.config) for s in way.partition.stages)
        if key in seen or way.about_s > FAR * ways[0].about_s:
            continue
        seen.add(key)
        turns[way.microbatch] = turns.get(way.microbatch, 0) + 1
        ranked.append((turns[way.microbatch], way.about_s, way))
    half = -(-most // 2)
    return [way for _, _, way in ranked[:half] + sorted(ranked[half:], key=lambda r: r[:2])][:most]
