"""What stages on given numbers of GPUs would take: the paper's own choice, in our model."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from ...planners.alpa import AlpaOptions, cluster_operators
from ...planners.alpa.inter import default_layers, submesh_shapes
from ...planners.alpa.inter.pricing.intra_pricer import IntraPricer
from ...planners.alpa.inter.pricing.pricer import price_stages
from ...profiles.graph import CostModel, Graph
from ...simulator.cluster import Cluster

__all__ = ["best_with", "seconds_with"]


def seconds_with(
    graph: Graph,
    cluster: Cluster,
    microbatches: int,
    options: AlpaOptions,
    gpus: Sequence[int],
    costs: CostModel | None = None,
) -> float:
    """Eq. 2 of the best plan whose stages have so many GPUs, in order; inf if none fits the memory.

    Priced as `planners.alpa.plan` prices stages, but every cut of the layers is tried.
    """
    recompute = "none" if options.recompute == "auto" else options.recompute
    shapes = [s for s in submesh_shapes(cluster, options.submeshes) if s[0] * s[1] in gpus]
    layers = cluster_operators(graph, options.n_layers or default_layers(graph, cluster.n_devices), options.delta)
    table = price_stages(
        graph,
        layers,
        cluster,
        shapes,
        IntraPricer.of(cluster, options, costs),
        microbatches=microbatches,
        recompute=(recompute,),
    )
    memory = cluster.spec.memory_bytes * options.memory_fraction
    cost = table.cost(microbatches)
    later = table.later(memory, options.schedule, microbatches)
    times: list[np.ndarray] = []  # of each stage, over its first and last layer
    for s, n in enumerate(gpus):
        fits = (later >= len(gpus) - 1 - s) & (table.sizes == n)[None, None, :, None]
        times.append(np.where(fits, cost, np.inf).min(axis=(2, 3)))
    return best_with(times, microbatches)


def best_with(times: Sequence[np.ndarray], microbatches: int) -> float:
    """Least Σ t + (B − 1) · max t over all cuts of L layers into len(times) runs; times[s][i, j]: stage s has i … j."""
    n = len(times[0])
    best = np.inf
    for cut in combinations(range(1, n), len(times) - 1):
        edges = (0, *cut, n)
        t = [float(times[s][edges[s], edges[s + 1] - 1]) for s in range(len(times))]
        best = min(best, sum(t) + (microbatches - 1) * max(t))
    return float(best)
