"""`plan`: Algorithm 1 of the Alpa paper, from a training graph and a cluster to a `TrainingPlan`."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
import time
from collections.abc import Callable, Mapping
from typing import Any

from ...errors import InfeasibleError, InputError
from ...profiles.graph import CostModel, Graph
from ...profiles.graph.memory import state_bytes
from ...simulator.cluster import Cluster
from ...simulator.training.plan.file import TrainingPlan
from ..batches import check_batch, divisors
from .inter.assemble import Site
from .inter.build import Origin, build_plan
from .inter.clustering import Layer, cluster_operators, default_layers
from .inter.infeasible import too_small, why_infeasible
from .inter.pricing.pricer import Pricer, Recompute
from .inter.search import Found, Search
from .options import AlpaOptions

__all__ = ["check_request", "microbatch_counts", "plan"]

Progress = Callable[[str], None]


def plan(
    graph: Graph,
    cluster: Cluster,
    *,
    global_batch: int,
    microbatches: int | None = None,
    options: AlpaOptions | Mapping[str, Any] | None = None,
    costs: CostModel | None = None,
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
        What the planner may choose from.
    costs : CostModel, optional
        Seconds of operators; by default a roofline of the cluster's devices.
    pricer : Pricer, optional
        Where stage costs come from; by default Alpa's intra-operator pass on these costs.
    planner : str
        Name of the planner, as the plan records it.
    progress : callable, optional
        Called with a line of text at each step.

    Raises
    ------
    InputError
        On a batch that microbatches do not divide, or an unknown option.
    InfeasibleError
        If no plan fits the memory; the message says what would.
    """
    started = time.perf_counter()
    chosen = AlpaOptions.of(options)
    check_request(graph, cluster, global_batch, microbatches)
    memory_bytes = cluster.spec.memory_bytes * chosen.memory_fraction
    error = too_small(graph, cluster, memory_bytes, state_bytes(graph, chosen.optimizer))
    if error is not None:
        raise error
    prices = _default_pricer(cluster, chosen, costs) if pricer is None else pricer
    layers = _layers(graph, cluster, chosen)
    search = Search(graph, cluster, global_batch, layers, chosen, prices, memory_bytes, progress)
    counts = [microbatches] if microbatches else microbatch_counts(graph, global_batch)
    found = search.best(counts)
    if found is None:
        raise why_infeasible(graph, cluster, memory_bytes, *search.what_would(counts))
    if progress is not None:
        progress(f"solving {len(found.choice.stages)} stages exactly")
    plans = [_solved(search, found, started, planner)]
    if chosen.cross_stage == "auto":
        counting = search.counting_transfers()
        other = counting.best_priced()
        if other is not None:
            plans.append(_solved(counting, other, started, planner))
    # By the simulator, since the two searches predict by different formulas.
    return min(plans, key=lambda made: made.predicted["simulated_s"])


def check_request(graph: Graph, cluster: Cluster, global_batch: int, microbatches: int | None) -> None:
    """Refuse what is no planning problem.

    Raises
    ------
    InputError
        On what is no graph or cluster, a number below one, or microbatches that do not divide the batch.
    """
    if not isinstance(graph, Graph):
        raise InputError(f"alpa: graph: expected a training graph (got {type(graph).__name__})")
    if not isinstance(cluster, Cluster):
        raise InputError(f"alpa: cluster: expected a Cluster (got {type(cluster).__name__})")
    check_batch(global_batch, "alpa: ")
    if microbatches is not None and (
        isinstance(microbatches, bool) or not isinstance(microbatches, int) or microbatches < 1
    ):
        raise InputError(f"alpa: microbatches: expected a positive integer (got {microbatches!r})")
    if microbatches is not None and global_batch % microbatches:
        closest = min(divisors(global_batch), key=lambda d: (abs(d - microbatches), d))
        raise InputError(
            f"alpa: microbatches: {microbatches} do not divide the global batch of {global_batch}; use {closest}"
        )


def _default_pricer(cluster: Cluster, options: AlpaOptions, costs: CostModel | None) -> Pricer:
    from .inter.pricing.intra_pricer import IntraPricer

    return IntraPricer.of(cluster, options, costs)


def _layers(graph: Graph, cluster: Cluster, options: AlpaOptions) -> tuple[Layer, ...]:
    if options.stages == "one":
        return ((0, len(graph.operators)),)
    wanted = options.n_layers
    if wanted is None:
        wanted = default_layers(graph, cluster.n_devices)
        if options.stages == "one_device":  # as many layers as stages at least
            wanted = min(max(wanted, cluster.n_devices), len(graph.operators))
        if options.interleave > 1:
            wanted = min(max(wanted, cluster.n_devices * options.interleave), len(graph.operators))
    return cluster_operators(graph, wanted, options.delta, options.clustering)


def microbatch_counts(graph: Graph, global_batch: int) -> list[int]:
    """Divisors of the global batch whose microbatches the graph can be scaled to."""
    found: list[int] = []
    for count in divisors(global_batch):
        try:
            graph.with_batch(global_batch // count)
        except InputError:
            continue
        found.append(count)
    return found


def _solved(search: Search, found: Found, started: float, planner: str) -> TrainingPlan:
    """The plan. A stage that has no exact solution (prices may be optimistic) is struck out, and stages chosen anew."""
    while True:
        stages, layers = found.choice.stages, search.layers
        n_meshes = len(stages) // search.options.interleave
        bounds: list[tuple[int, int, tuple[int, int], Recompute]] = [
            (layers[s.first][0], layers[s.last - 1][1], s.config.logical, s.config.recompute) for s in stages
        ]
        try:
            return build_plan(
                found.graph,
                [Site(search.cluster, search.pricer, search.memory_bytes)],
                [(0, found.table.submeshes[s.submesh]) for s in stages[:n_meshes]],
                bounds,
                found.microbatches,
                search.options,
                Origin(planner, started, search.evaluations, {"layers": len(layers)}, found.choice.seconds),
            )
        except InfeasibleError:
            again = search.without(found)
            if again is None:
                raise
            found = again
