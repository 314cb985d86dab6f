"""`plan`: GraphPipe's planner, from a training graph and a cluster to a `TrainingPlan` whose stages form a graph."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import InputError
from ...profiles.graph import CostModel, Graph
from ...simulator.cluster import Cluster
from ...simulator.plan_entries import PlannerEntry
from ...simulator.training.plan import TrainingPlan
from ...simulator.training.simulate import simulate_training
from .candidates import candidates_of
from .checks import check_stage_graph
from .greedy import greedy_orders
from .infeasible import why_infeasible
from .options import GraphPipeOptions
from .outline import outline
from .partitioner import Partition
from .stage_costs import StageCosts, stage_mesh
from .stage_graph import StageGraph, stage_graph
from .stage_plan import ChosenStage, stage_plan
from .stage_units import group_operators, unit_edges
from .sweep import Way, sweep
from .tree import Series, chain_of, grouped, planning_tree

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
    """
    started = time.perf_counter()
    chosen = GraphPipeOptions.of(options)
    task = Task.of(graph, cluster, global_batch, chosen, costs)
    memory_bytes = cluster.spec.memory_bytes * chosen.memory_fraction
    ways, solved = list[Way](), 0
    for tree in task.trees:
        candidates = candidates_of(tree, task.costs, memory_bytes)
        if progress is not None:
            progress(f"graphpipe: {task.costs.n_units} units, {len(candidates.units)} candidate stages")
        ways, tried = sweep(
            candidates, cluster.n_devices, global_batch, ks=task.ks, same_microbatch=chosen.same_microbatch,
            trade=chosen.objective == "iteration", about=task.about_s, known=ways,
        )  # fmt: skip
        solved += tried
    if not ways:
        raise why_infeasible(task.tree, task.costs, task.ks, memory_bytes)
    best_way, least = ways[0], float("inf")
    for way in _promising(ways, chosen.simulated):
        seconds = task.simulated_s(way)
        if progress is not None:
            progress(f"graphpipe: {len(way.partition.stages)} stages, simulated {seconds:.6g} s")
        if seconds < least:
            best_way, least = way, seconds
    best = task.emit(best_way, solved)
    check_stage_graph(best, graph, memory_bytes=memory_bytes)
    spent = time.perf_counter() - started
    return best.model_copy(update={"planner": best.planner.model_copy(update={"seconds": spent})})


@dataclass(frozen=True, eq=False)
class Task:
    """What is planned, priced.

    Parameters
    ----------
    options : GraphPipeOptions
        What may be chosen.
    tree : Series
        Over the units of the costs.
    costs : StageCosts
        Prices.
    edges : tuple of (int, int)
        Units that read what others make.
    """

    options: GraphPipeOptions
    tree: Series
    costs: StageCosts
    edges: tuple[tuple[int, int], ...]

    @classmethod
    def of(
        cls, graph: Graph, cluster: Cluster, global_batch: int, options: GraphPipeOptions, costs: CostModel | None
    ) -> Task:
        """Units, their tree and their prices.

        Raises
        ------
        InputError
            On what is no graph, cluster or batch.
        """
        if not isinstance(graph, Graph):
            raise InputError(f"graphpipe: graph: expected a training graph (got {type(graph).__name__})")
        if not isinstance(cluster, Cluster):
            raise InputError(f"graphpipe: cluster: expected a Cluster (got {type(cluster).__name__})")
        if isinstance(global_batch, bool) or not isinstance(global_batch, int) or global_batch < 1:
            raise InputError(f"graphpipe: global_batch: expected a positive integer (got {global_batch!r})")
        even = graph.forward_flops / cluster.n_devices * options.least_parallel

        def keep(operators: tuple[int, ...]) -> bool:
            return sum(graph.operators[i].flops for i in operators) >= even

        groups = group_operators(graph, options.granularity)
        if options.topology == "chain":
            tree, units = chain_of(len(groups)), groups
        else:
            tree, units = planning_tree(graph, groups, keep)
            tree = grouped(tree, graph, units)
        degrees = options.devices or tuple(d for d in _powers(cluster.n_devices) if stage_mesh(cluster, d) is not None)
        priced = StageCosts.of(
            graph, cluster, global_batch=global_batch, microbatches=options.microbatches or _sizes(graph, global_batch),
            devices=degrees, units=units, costs=costs, optimizer=options.optimizer, overlap=options.overlap,
        )  # fmt: skip
        return cls(options, tree, priced, unit_edges(graph, units))

    @property
    def trees(self) -> tuple[Series, ...]:
        """What is searched: the tree, and if it has branches, all of its units in one line as well.

        A run of units along the line may hold the end of one branch and the beginning of another, which no part of the
        tree does. Such stages still wait only for what they read.
        """
        line = chain_of(self.costs.n_units)
        return (self.tree,) if self.tree == line else (self.tree, line)

    @property
    def ks(self) -> tuple[int, ...]:
        """k of kFkB."""
        return self.options.ks if self.options.schedule == "kfkb" else (1,)

    def graph_of(self, partition: Partition) -> StageGraph:
        """The stages as a graph."""
        sequential = self.options.topology == "chain"
        return stage_graph(partition.stages, self.edges, self.costs.global_batch, sequential)

    def about_s(self, partition: Partition) -> float:
        """Estimated seconds of an iteration."""
        return self.graph_of(partition).about_s

    def in_words(self, way: Way) -> tuple[StageGraph, list[ChosenStage], str]:
        """The stages, in a plan's words, and the plan's schedule."""
        stages = self.graph_of(way.partition)
        plain = len({s.config for s in stages.stages}) == 1 and stages.stages[0].config.k == 1
        greedy = self.options.schedule == "greedy"
        schedule = "explicit" if greedy else "1f1b" if plain else "kfkb"
        orders = greedy_orders(stages) if greedy else [""] * len(stages.stages)
        chosen = [
            ChosenStage(
                stage.units, stage.devices, stage.config.microbatch, stage.config.k,
                held // stage.config.microbatch if schedule == "kfkb" else -1, order,
            )
            for stage, held, order in zip(stages.stages, stages.held, orders, strict=True)
        ]  # fmt: skip
        return stages, chosen, schedule

    def simulated_s(self, way: Way) -> float:
        """Seconds of a simulated iteration."""
        return simulate_training(outline(self.costs, *self.in_words(way), self.options.topology == "chain")).seconds

    def emit(self, way: Way, solved: int) -> TrainingPlan:
        """The plan, simulated."""
        stages, chosen, schedule = self.in_words(way)
        entry = PlannerEntry(
            name="graphpipe" if self.options.topology == "graph" else "graphpipe-chain",
            options=self.options.to_json() | {"largest_microbatch": way.microbatch},
            evaluations=solved,
            seconds=0.0,
        )
        made = stage_plan(
            self.costs, chosen, planner=entry, schedule=schedule, sequential=self.options.topology == "chain"
        )
        return made.model_copy(update={"predicted": _predicted(made, way, stages)})


def _predicted(plan: TrainingPlan, way: Way, stages: StageGraph) -> dict[str, float]:
    result = simulate_training(plan)
    return {
        "tps": way.partition.tps,
        "seconds": result.seconds,
        "about_seconds": way.about_s,
        "samples_per_s": plan.global_batch / result.seconds,
        "stages": float(len(plan.stages)),
        "depth": float(stages.depth),
        "in_flight": float(max(stages.held)),
        "peak_bytes": float(max(result.peak_bytes)),
        "idle_devices": float(plan.cluster_spec.n_devices - sum(m.hosts * m.devices for m in plan.meshes)),
    }


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


def _powers(most: int) -> tuple[int, ...]:
    return tuple(2**k for k in range(most.bit_length()) if 2**k <= most)


def _sizes(graph: Graph, global_batch: int) -> tuple[int, ...]:
    """Powers of two that divide the global batch, and to which the graph can be scaled.

    Raises
    ------
    InputError
        If there are none.
    """
    found = tuple(b for b in _powers(global_batch) if global_batch % b == 0)
    if not _scales(graph, 1):  # else to any
        found = tuple(b for b in found if _scales(graph, b))
    if not found:
        raise InputError(
            f"graphpipe: global_batch: no power of two divides {global_batch} to which {graph.name!r} can be scaled"
        )
    return found


def _scales(graph: Graph, batch: int) -> bool:
    try:
        graph.with_batch(batch)
    except InputError:
        return False
    return True
