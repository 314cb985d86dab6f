"""Alpa's intra-operator pass, with prices of stages that are kept for planners that ask for the same ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...planners.alpa.inter.pricing.intra_pricer import IntraPricer

if TYPE_CHECKING:
    from ...planners.alpa.inter.pricing.pricer import Prices, Recompute
    from ...profiles.graph import Graph
    from ...simulator.mesh import LogicalMesh

__all__ = ["Remembering"]

Layers = tuple[tuple[int, int], ...]
Key = tuple[int, Layers, tuple[int, int], tuple[int, int], str, int]


@dataclass(eq=False)
class Remembering(IntraPricer):
    """An `IntraPricer` that prices the runs of the same layers on the same mesh once."""

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
