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
"""How many times the best estimate a plan's may be for it to be simulated."""


def plan(
    graph: Graph,
    cluster: Cluster,
    *,
    global_batch: int,
    options: GraphPipeOptions | Mapping[str, Any] | None = None,
    costs: CostModel | None = None,
    progress: Progress | None = None,
) -> TrainingPlan:
    """Stages that form a graph, each with its own devices, microbatch and schedule (GraphPipe, thesis ch. 3).

    Parameters
    ----------
    graph : Graph
        The model, at any batch size.
    cluster : Cluster
        Devices.
    global_batch : int
        Samples of one iteration.
    options : GraphPipeOptions or mapping, optional
        What may be chosen.
    costs : CostModel, optional
        Seconds of operators; by default a roofline of the cluster's devices.
    progress : callable, optional
        Told what is being done.

    Returns
    -------
    TrainingPlan
        Checked against C1–C5 and Eq. 3.2. ``predicted``: ``tps`` and ``seconds`` (simulated) among others.

    Raises
    ------
    InputError
        On an unknown option, or a batch that the graph cannot be scaled to.
    InfeasibleError
        If nothing fits; says the smallest change that would make a plan.
    LimitError
        If nothing of what was searched fits, and limits of ours left out stages.
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
    """The best estimates, then those of each microbatch size in turn; of ways with the same stages one.

    Estimates take every message for one between nodes, so that they favour few stages. Far worse ones are left out.
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
