"""`megatron`: Megatron-LM's grid search over degrees of tensor, pipeline and data parallelism (§8.1).

The three degrees are the same for all blocks of the model.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ...errors import InfeasibleError, InputError
from ...profiles.graph import CostModel, Graph, roofline
from ...simulator.cluster import Cluster
from ...simulator.mesh import Mesh
from ...simulator.training.plan.file import TrainingPlan
from .fixed import megatron as megatron_axes
from .inter.assemble import Site
from .inter.build import Origin, build_plan
from .inter.clustering import Layer
from .inter.memory import in_flight
from .inter.pricing.fixed_pricer import FixedPricer
from .inter.pricing.intra_pricer import intra_options
from .inter.pricing.pricer import Recompute, StagePlan
from .inter.pricing.repeats import interval_keys
from .inter.shapes import submesh_shapes
from .options import AlpaOptions
from .planner import check_request, microbatch_counts

__all__ = ["block_stages", "megatron"]

Grid = tuple[int, int, int, int]
"""Degrees of tensor, pipeline and data parallelism, and the number of microbatches."""


def block_stages(graph: Graph, pp: int) -> tuple[Layer, ...] | None:
    """The operators of `pp` stages that have equally many repeated blocks; None if the blocks do not divide evenly.

    Operators before the blocks belong to the first stage, those after them to the last.

    Raises
    ------
    InputError
        If the graph has no repeated blocks.
    """
    firsts: dict[int, int] = {}
    for k, op in enumerate(graph.operators):
        if op.layer >= 0:
            firsts.setdefault(op.layer, k)
    if not firsts:
        raise InputError(f"megatron: {graph.name!r} has no repeated blocks; plan it with planners.alpa.plan")
    blocks = [firsts[layer] for layer in sorted(firsts)]
    if len(blocks) % pp:
        return None
    each = len(blocks) // pp
    starts = [0, *(blocks[s * each] for s in range(1, pp))]
    return tuple(zip(starts, [*starts[1:], len(graph.operators)], strict=True))


def megatron(
    graph: Graph,
    cluster: Cluster,
    *,
    global_batch: int,
    microbatches: int | None = None,
    options: AlpaOptions | Mapping[str, Any] | None = None,
    costs: CostModel | None = None,
    progress: Callable[[str], None] | None = None,
) -> TrainingPlan:
    """Find the best degrees (tensor, pipeline, data) with Megatron's shardings; tensor parallelism stays in a node.

    Parameters
    ----------
    graph, cluster, global_batch, microbatches, options, progress
        As for `planners.alpa.plan`. Weight-update sharding is off, because Megatron-LM v2 has none. All stages
        recompute what the options say; "auto" takes the least that fits.
    costs : CostModel, optional
        Seconds of operators; by default a roofline of the devices.

    Raises
    ------
    InputError
        If the model has no repeated blocks.
    InfeasibleError
        If nothing fits.
    """
    started = time.perf_counter()
    chosen = replace(AlpaOptions.of(options), zero=0, stages="equal_layer")
    check_request(graph, cluster, global_batch, microbatches)
    memory = cluster.spec.memory_bytes * chosen.memory_fraction
    pricer = FixedPricer(costs or roofline(cluster.spec), intra_options(chosen), megatron_axes)
    recompute: tuple[Recompute, ...] = (
        ("none", "selective", "full") if chosen.recompute == "auto" else (chosen.recompute,)
    )
    best: tuple[float, Grid, Recompute] | None = None
    evaluated = 0
    for grid, bound in _grids(graph, cluster, global_batch, microbatches, pricer):
        if best is not None and bound >= best[0]:
            break
        tp, pp, dp, count = grid
        if progress is not None:
            progress(f"tensor {tp}, pipeline {pp}, data {dp}, {count} microbatches")
        sized = graph.with_batch(global_batch // count)
        for kept in recompute:  # each takes longer than the one before it, and holds less
            seconds = _seconds(sized, cluster, grid, pricer, kept, memory, chosen)
            evaluated += 1
            if seconds is not None:
                best = (seconds, grid, kept) if best is None or seconds < best[0] else best
                break
    if best is None:
        raise InfeasibleError(
            f"megatron: no tensor, pipeline and data parallelism of {graph.name!r} on {cluster} fits "
            f"{memory / 2**30:.4g} GiB a device; use more devices, recompute='full', or planners.alpa.plan"
        )
    tp, pp, dp, count = best[1]
    sized = graph.with_batch(global_batch // count)
    bounds = block_stages(sized, pp)
    assert bounds is not None
    stages: list[tuple[int, int, tuple[int, int], Recompute]] = [(*b, (dp, tp), best[2]) for b in bounds]
    said = {"tensor": tp, "pipeline": pp, "data": dp}
    return build_plan(
        sized, [Site(cluster, pricer, memory)], [(0, _shape(cluster, dp * tp))] * pp, stages, count, chosen,
        Origin("megatron", started, evaluated, said, best[0]),
    )  # fmt: skip


def _shape(cluster: Cluster, n: int) -> tuple[int, int]:
    return (1, n) if n <= cluster.devices_per_node else (n // cluster.devices_per_node, cluster.devices_per_node)


def _grids(
    graph: Graph, cluster: Cluster, global_batch: int, microbatches: int | None, pricer: FixedPricer
) -> list[tuple[Grid, float]]:
    """All possible grid points, in ascending order of a lower bound of their seconds: the search can stop early."""
    n, width = cluster.n_devices, cluster.devices_per_node
    shapes = {a * b for a, b in submesh_shapes(cluster)}
    counts = [microbatches] if microbatches else microbatch_counts(graph, global_batch)
    found: list[tuple[Grid, float]] = []
    for count in counts:
        sized = graph.with_batch(global_batch // count)
        least = pricer.least_seconds(sized) / n
        for tp in (t for t in range(1, width + 1) if width % t == 0):
            for dp in (d for d in range(1, n // tp + 1) if n % (tp * d) == 0 and sized.batch % d == 0):
                pp = n // (tp * dp)
                if tp * dp in shapes and block_stages(graph, pp) is not None:
                    # All stages are at least as slow as the average one, and one microbatch fills the pipeline.
                    found.append(((tp, pp, dp, count), least * (count + pp - 1)))
    return sorted(found, key=lambda x: (x[1], x[0]))


def _seconds(
    graph: Graph, cluster: Cluster, grid: Grid, pricer: FixedPricer, recompute: Recompute, memory: float,
    options: AlpaOptions,
) -> float | None:  # fmt: skip
    """Eq. 2 of one grid point; None if it does not fit."""
    tp, pp, dp, count = grid
    bounds = block_stages(graph, pp)
    assert bounds is not None
    mesh = Mesh(cluster, *_shape(cluster, tp * dp)).view((dp, tp))
    keys = interval_keys(graph, bounds)
    known: dict[object, StagePlan] = {}
    times: list[float] = []
    price = partial(pricer.stage, graph, mesh=mesh, recompute=recompute, microbatches=count)
    for s, (first, last) in enumerate(bounds):
        held = in_flight(options.schedule, s, pp, count)
        try:
            key = keys[s, s]
            if key not in known:
                known[key] = price(first, last, held=held, memory_bytes=0.0)
            p = known[key]
        except (InfeasibleError, InputError):
            return None
        if p.state_bytes + held * p.activation_bytes + p.work_bytes > memory:
            return None
        times.append(p.forward_s + p.backward_input_s + p.backward_weight_s + (p.reduce_s + p.update_s) / count)
    return math.fsum(times) + (count - 1) * max(times)
