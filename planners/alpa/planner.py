"""`plan`: Algorithm 1 of the Alpa paper, from a training graph and a cluster to a `TrainingPlan`."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
import time
from collections.abc import Callable, Mapping
from typing import Any

from ...errors import InfeasibleError, InputError
from ...profiles.graph import Graph
from ...profiles.graph.memory import state_bytes
from ...simulator.cluster import Cluster
from ...simulator.plan_entries import PlannerEntry
from ...simulator.training.plan import TrainingPlan
from ...simulator.training.plan_entries import ModelEntry
from .inter.assemble import PlacedStage, mesh_entries, predicted, stage_entries, transfers
from .inter.clustering import Layer, cluster_operators, default_layers
from .inter.infeasible import too_small, why_infeasible
from .inter.interleave import held_microbatches
from .inter.memory import in_flight
from .inter.pricer import Pricer
from .inter.search import Found, Search
from .options import AlpaOptions

__all__ = ["plan"]

Progress = Callable[[str], None]


def plan(
    graph: Graph,
    cluster: Cluster,
    *,
    global_batch: int,
    microbatches: int | None = None,
    options: AlpaOptions | Mapping[str, Any] | None = None,
    pricer: Pricer | None = None,
    planner: str = "alpa",
    progress: Progress | None = None,
) -> TrainingPlan:
    """The plan with the least seconds per iteration: stages, submeshes, and a sharding of every operator.

    Parameters
    ----------
    graph : Graph
        The model, at any batch size.
    cluster : Cluster
        Devices; the plan uses all of them.
    global_batch : int
        Samples of one iteration.
    microbatches : int, optional
        B, a divisor of the global batch; by default all divisors are searched.
    options : AlpaOptions or mapping, optional
        What may be chosen.
    pricer : Pricer, optional
        Where stage costs come from; by default Alpa's intra-operator pass on a roofline of the cluster's devices.
    planner : str
        Name that the plan records.
    progress : callable, optional
        Told what is being done.

    Raises
    ------
    InputError
        On a batch that microbatches do not divide, or an unknown option.
    InfeasibleError
        If no plan fits the memory; the message says what would.
    """
    started = time.perf_counter()
    chosen = AlpaOptions.of(options)
    _check(graph, cluster, global_batch, microbatches)
    memory_bytes = cluster.spec.memory_bytes * chosen.memory_fraction
    error = too_small(graph, cluster, memory_bytes, state_bytes(graph, chosen.optimizer))
    if error is not None:
        raise error
    prices = _default_pricer(cluster, chosen) if pricer is None else pricer
    layers = _layers(graph, cluster, chosen)
    search = Search(graph, cluster, global_batch, layers, chosen, prices, memory_bytes, progress)
    counts = [microbatches] if microbatches else _counts(graph, global_batch)
    found = search.best(counts)
    if found is None:
        raise why_infeasible(graph, cluster, memory_bytes, *search.what_would(counts))
    if progress is not None:
        progress(f"solving {len(found.choice.stages)} stages exactly")
    return _assemble(search, found, started, planner)


def _check(graph: Graph, cluster: Cluster, global_batch: int, microbatches: int | None) -> None:
    if not isinstance(graph, Graph):
        raise InputError(f"alpa: graph: expected a training graph (got {type(graph).__name__})")
    if not isinstance(cluster, Cluster):
        raise InputError(f"alpa: cluster: expected a Cluster (got {type(cluster).__name__})")
    for name, value in (("global_batch", global_batch), ("microbatches", microbatches)):
        wrong = isinstance(value, bool) or not isinstance(value, int) or value < 1
        if wrong and not (name == "microbatches" and value is None):
            raise InputError(f"alpa: {name}: expected a positive integer (got {value!r})")
    if microbatches is not None and global_batch % microbatches:
        near = [d for d in range(1, global_batch + 1) if global_batch % d == 0]
        closest = min(near, key=lambda d: (abs(d - microbatches), d))
        raise InputError(
            f"alpa: microbatches: {microbatches} do not divide the global batch of {global_batch}; use {closest}"
        )


def _default_pricer(cluster: Cluster, options: AlpaOptions) -> Pricer:
    from .inter.intra_pricer import IntraPricer

    return IntraPricer.of(cluster, options)


def _layers(graph: Graph, cluster: Cluster, options: AlpaOptions) -> tuple[Layer, ...]:
    wanted = options.n_layers
    if wanted is None:
        wanted = default_layers(graph, cluster.n_devices)
        if options.stages == "one_device":  # as many layers as stages at least
            wanted = min(max(wanted, cluster.n_devices), len(graph.operators))
        if options.interleave > 1:
            wanted = min(max(wanted, cluster.n_devices * options.interleave), len(graph.operators))
    return cluster_operators(graph, wanted, options.delta, options.clustering)


def _counts(graph: Graph, global_batch: int) -> list[int]:
    """Divisors of the global batch whose microbatches the graph can be scaled to."""
    found: list[int] = []
    for count in range(1, global_batch + 1):
        if global_batch % count == 0:
            try:
                graph.with_batch(global_batch // count)
            except InputError:
                continue
            found.append(count)
    return found


def _assemble(search: Search, found: Found, started: float, planner: str) -> TrainingPlan:
    """The plan. A stage that has no exact solution (prices may be optimistic) is struck out, and stages chosen anew."""
    cluster, options = search.cluster, search.options
    while True:
        choice, graph, microbatches = found.choice, found.graph, found.microbatches
        count = len(choice.stages)
        n_meshes = count // options.interleave
        meshes = mesh_entries([found.table.submeshes[s.submesh] for s in choice.stages[:n_meshes]], cluster)
        if options.interleave > 1:
            held = held_microbatches(n_meshes, options.interleave, microbatches)
        else:
            held = [in_flight(options.schedule, count - 1 - s, microbatches) for s in range(count)]
        placed = [
            PlacedStage(
                search.layers[s.first][0],
                search.layers[s.last - 1][1],
                number % n_meshes,
                s.config.logical,
                s.config.recompute,
                held[number],
            )
            for number, s in enumerate(choice.stages)
        ]
        try:
            entries, plans = stage_entries(
                graph, placed, meshes, cluster, search.pricer, microbatches, search.memory_bytes / options.interleave
            )
        except InfeasibleError:
            again = search.without(found)
            if again is None:
                raise
            found = again
            continue
        dtypes = [t.dtype for t in graph.parameters]
        return TrainingPlan.of(
            cluster,
            model=ModelEntry(
                name=graph.name,
                digest=graph.digest,
                dtype=dtypes[0] if dtypes else graph.operators[0].dtype,
                optimizer=options.optimizer,
            ),
            global_batch=graph.batch * microbatches,
            microbatches=microbatches,
            schedule=options.schedule,
            resharding=options.resharding,
            overlap=options.overlap,
            meshes=meshes,
            stages=tuple(entries),
            transfers=transfers(graph, entries, plans),
            planner=PlannerEntry(
                name=planner,
                options=options.to_json() | {"layers": len(search.layers)},
                seconds=time.perf_counter() - started,
                evaluations=search.evaluations,
            ),
            cost_source=search.pricer.source,
            predicted=predicted(graph, entries, meshes, microbatches, held, cluster)
            | {"gap": max(p.gap for p in plans), "dp_seconds": choice.seconds},
        )
