"""Prices of stages: what those on given numbers of GPUs would take, and prices that are kept for the next planner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from ...planners.alpa import AlpaOptions, cluster_operators
from ...planners.alpa.inter import default_layers, submesh_shapes
from ...planners.alpa.inter.pricing.intra_pricer import IntraPricer
from ...planners.alpa.inter.pricing.pricer import price_stages
from ...profiles.graph import CostModel, Graph
from ...simulator.cluster import Cluster

if TYPE_CHECKING:
    from ...planners.alpa.inter.pricing.pricer import Prices, Recompute
    from ...simulator.mesh import LogicalMesh

__all__ = ["Remembering", "best_with", "seconds_with"]

Layers = tuple[tuple[int, int], ...]
Key = tuple[int, Layers, tuple[int, int], tuple[int, int], str, int]


@dataclass(eq=False)
class Remembering(IntraPricer):
    """Alpa's intra-operator pass that prices the runs of the same layers on the same mesh once."""

    _kept: dict[Key, tuple[Graph, Prices]] = field(default_factory=dict[Key, "tuple[Graph, Prices]"], repr=False)

    def intervals(
        self, graph: Graph, layers: Sequence[tuple[int, int]], mesh: LogicalMesh, recompute: Recompute,
        microbatches: int,
    ) -> Prices:  # fmt: skip
        """What every run of layers takes."""
        self._layers = tuple(layers)  # what `stage` looks at
        shape = (mesh.mesh.hosts, mesh.mesh.devices)
        key = (id(graph), self._layers, shape, mesh.shape, recompute, microbatches)
        if key not in self._kept:
            # The graph is kept so that its id stays its own.
            self._kept[key] = (graph, super().intervals(graph, layers, mesh, recompute, microbatches))
        return self._kept[key][1]


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
    return min(
        best_with(_times(cost, later, table.sizes, gpus), microbatches)
        for later in table.later(memory, options.schedule, microbatches)
    )


def _times(cost: np.ndarray, later: np.ndarray, sizes: np.ndarray, gpus: Sequence[int]) -> list[np.ndarray]:
    """Least seconds of each stage that fits, over its first and last layer."""
    fits = [(later >= len(gpus) - 1 - s) & (sizes == n)[None, None, :, None] for s, n in enumerate(gpus)]
    return [np.where(fit, cost, np.inf).min(axis=(2, 3)) for fit in fits]


def best_with(times: Sequence[np.ndarray], microbatches: int) -> float:
    """Least Σ t + (B − 1) · max t over all cuts of L layers into len(times) runs; times[s][i, j]: stage s has i … j."""
    n = len(times[0])
    best = np.inf
    for cut in combinations(range(1, n), len(times) - 1):
        edges = (0, *cut, n)
        t = [float(times[s][edges[s], edges[s + 1] - 1]) for s in range(len(times))]
        best = min(best, sum(t) + (microbatches - 1) * max(t))
    return float(best)
