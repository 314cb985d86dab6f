"""`Task`: one call of GraphPipe's planner, with its units and costs; it also turns what is found into a timed plan."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
from dataclasses import dataclass

import numpy as np

from ...errors import InputError
from ...profiles.graph import CostModel, Graph, check_loss
from ...simulator.cluster import Cluster
from ...simulator.plan.entries import PlannerEntry
from ...simulator.training.plan.file import TrainingPlan
from ...simulator.training.simulate import simulate_training
from ..batches import check_batch
from ..stages.costs import StageCosts, stage_mesh
from ..stages.plan import ChosenStage, stage_plan
from ..stages.units import group_operators, unit_edges
from .options import GraphPipeOptions
from .outline import outline
from .partitioner import Partition
from .schedule.greedy import greedy_passes, order_text, passes_in_flight
from .schedule.stage_graph import StageGraph, stage_graph
from .sweep import Way
from .tree import Series, chain_of, grouped, planning_tree

__all__ = ["Task"]


@dataclass(frozen=True, eq=False)
class Task:
    """What is to be planned, with the costs of its units.

    Parameters
    ----------
    options : GraphPipeOptions
        What the planner may choose from.
    tree : Series
        The tree of the units.
    costs : StageCosts
        Costs of stages.
    edges : tuple of (int, int)
        Edges between units.
    memory_bytes : float
        Bytes of each device that a plan may use.
    """

    options: GraphPipeOptions
    tree: Series
    costs: StageCosts
    edges: tuple[tuple[int, int], ...]
    memory_bytes: float

    @classmethod
    def of(
        cls, graph: Graph, cluster: Cluster, global_batch: int, options: GraphPipeOptions, costs: CostModel | None
    ) -> Task:
        """Make the units of a graph, their tree and their costs.

        Raises
        ------
        InputError
            If the graph, the cluster or the batch is none.
        """
        if not isinstance(graph, Graph):
            raise InputError(f"graphpipe: graph: expected a training graph (got {type(graph).__name__})")
        check_loss(graph)
        if not isinstance(cluster, Cluster):
            raise InputError(f"graphpipe: cluster: expected a Cluster (got {type(cluster).__name__})")
        check_batch(global_batch, "graphpipe: ")
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
        ).held_as(options.footprint)  # fmt: skip
        memory_bytes = cluster.spec.memory_bytes * options.memory_fraction
        return cls(options, tree, priced, unit_edges(graph, units), memory_bytes)

    @property
    def trees(self) -> tuple[Series, ...]:
        """The trees that are searched: the tree itself, and if it has branches also all of its units in one line.

        A run of units along the line may hold the end of one branch and the beginning of another, which no candidate of
        the tree does. Such stages still wait only for what they read.
        """
        line = chain_of(self.costs.n_units)
        return (self.tree,) if self.tree == line else (self.tree, line)

    @property
    def ks(self) -> tuple[int, ...]:
        """Values of k to search: those of the options under kFkB, else only 1."""
        return self.options.ks if self.options.schedule == "kfkb" else (1,)

    def graph_of(self, partition: Partition) -> StageGraph:
        """The stages as a graph."""
        sequential = self.options.topology == "chain"
        return stage_graph(partition.stages, self.edges, self.costs.global_batch, sequential)

    def about_s(self, partition: Partition) -> float:
        """Estimated seconds of an iteration."""
        return self.graph_of(partition).about_s

    def in_words(self, way: Way) -> tuple[StageGraph, list[ChosenStage], str]:
        """The graph of stages, the same stages as entries of a plan, and the name of the plan's schedule."""
        stages = self.graph_of(way.partition)
        plain = len({s.config for s in stages.stages}) == 1 and stages.stages[0].config.k == 1
        orders = self._greedy_orders(stages) if self.options.schedule == "greedy" else None
        schedule = "explicit" if orders is not None else "1f1b" if plain else "kfkb"
        orders = orders or [""] * len(stages.stages)
        chosen = [
            ChosenStage(
                stage.units, stage.devices, stage.config.microbatch, stage.config.k,
                held // stage.config.microbatch if schedule == "kfkb" else -1, order,
            )
            for stage, held, order in zip(stages.stages, stages.held, orders, strict=True)
        ]  # fmt: skip
        return stages, chosen, schedule

    def _greedy_orders(self, stages: StageGraph) -> list[str] | None:
        """Algorithm 4's orders of passes, or None if they do not fit into memory.

        They can need more than 1F1B: messages take time, and the schedule hides that with more samples in flight.
        """
        passes = greedy_passes(stages)
        masks = np.zeros((len(passes), self.costs.n_units), bool)
        for row, stage in enumerate(stages.stages):
            masks[row, list(stage.units)] = True
        sets = self.costs.of_sets(masks)
        for row, (stage, mine) in enumerate(zip(stages.stages, passes, strict=True)):
            b = stage.config.microbatch
            held = passes_in_flight(mine) * b
            one = sets.at(slice(row, row + 1))
            if self.costs.memory(one, b, stage.devices, held)[0] > self.memory_bytes:
                return None
        return [order_text(mine) for mine in passes]

    def simulated_s(self, way: Way) -> float:
        """Seconds of one simulated iteration."""
        return simulate_training(outline(self.costs, *self.in_words(way), self.options.topology == "chain")).seconds

    def emit(self, way: Way, solved: int) -> TrainingPlan:
        """The full plan, with its simulated seconds."""
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
    if not _scales(graph, 1):  # a graph that scales to one sample scales to any number
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
