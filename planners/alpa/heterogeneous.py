"""`plan_heterogeneous`: stages on several clusters of different device types at once (beyond the paper).

Each cluster has its own submeshes, costs and memory, and each stage lies in one cluster. The stage programme counts the
devices of each cluster separately (`linked_stages`) and uses all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import InfeasibleError, InputError
from ...profiles.graph import Graph
from ...simulator.cluster import Cluster
from ...simulator.training.plan.file import TrainingPlan
from .inter.assemble import Site
from .inter.build import Origin, build_plan
from .inter.clustering import Layer, cluster_operators, default_layers
from .inter.crossing import received_bytes
from .inter.linked import Links, linked_stages, links_between
from .inter.pricing.intra_pricer import IntraPricer
from .inter.pricing.pricer import Pricer, Pricing, Recompute, price_stages
from .inter.pricing.table import StageTable
from .inter.shapes import submesh_shapes
from .options import AlpaOptions
from .planner import check_request, microbatch_counts
from .stages import Stage

__all__ = ["plan_heterogeneous"]


def plan_heterogeneous(
    graph: Graph,
    clusters: Sequence[Cluster],
    *,
    global_batch: int,
    microbatches: int | None = None,
    options: AlpaOptions | Mapping[str, Any] | None = None,
    pricers: Sequence[Pricer] | None = None,
    progress: Callable[[str], None] | None = None,
) -> TrainingPlan:
    """The plan with the least seconds over all stages on submeshes of all clusters; every device is used.

    Parameters
    ----------
    graph : Graph
        The model.
    clusters : sequence of Cluster
        One for each device type; joined by the slower one's network.
    global_batch : int
        Samples of an iteration.
    microbatches : int, optional
        B, a divisor of the global batch; by default all divisors are searched.
    options : AlpaOptions or mapping, optional
        As for `planners.alpa.plan`; stages, interleaving, ε and ``cross_stage="auto"`` do not apply.
    pricers : sequence of Pricer, optional
        Where stage costs come from, one per cluster.
    progress : callable, optional
        Called with a line of text at each step.

    Raises
    ------
    InputError
        If there is no cluster, or an option does not apply.
    InfeasibleError
        If nothing fits.
    """
    started, chosen = time.perf_counter(), AlpaOptions.of(options)
    if not clusters:
        raise InputError("alpa: clusters: expected at least one")
    for cluster in clusters:
        check_request(graph, cluster, global_batch, microbatches)
    if chosen.stages != "any" or chosen.interleave > 1 or chosen.epsilon or chosen.cross_stage == "auto":
        raise InputError(
            "alpa: several clusters go with stages 'any', interleave 1, epsilon 0, and cross_stage true or false"
        )
    if any(c.levels for c in clusters) and len(clusters) > 1:
        raise InputError("alpa: several clusters go without levels of their networks; leave them out")
    n_devices = sum(c.n_devices for c in clusters)
    layers = cluster_operators(
        graph, chosen.n_layers or default_layers(graph, n_devices), chosen.delta, chosen.clustering
    )
    sources = list(pricers) if pricers is not None else [IntraPricer.of(c, chosen) for c in clusters]
    sites = [
        Site(c, source, c.spec.memory_bytes * chosen.memory_fraction)
        for c, source in zip(clusters, sources, strict=True)
    ]
    counts = [microbatches] if microbatches else microbatch_counts(graph, global_batch)
    least = {n: _least(graph.with_batch(global_batch // n), sites) * n for n in counts}
    found: list[_Found] = []
    for count in sorted(counts, key=lambda n: (least[n], n)):
        if found and min(x.seconds for x in found) <= least[count]:
            break  # no plan with so many can be faster
        one = _Found(graph.with_batch(global_batch // count), sites, layers, count, chosen)
        if one.price(progress).choose():
            found.append(one)
    tables = sum(int(np.isfinite(x.table.seconds).sum()) for x in found)
    for best in sorted(found, key=lambda x: (x.seconds, x.microbatches)):
        try:
            return best.plan(Origin("alpa", started, tables, {"layers": len(layers)}, best.seconds))
        except InfeasibleError:
            continue
    names = ", ".join(map(str, clusters))
    tried = ", ".join(map(str, counts))
    raise InfeasibleError(
        f"alpa: no stages of {graph.name!r} with {tried} microbatches use every device of {names} and fit their memory;"
        " use smaller microbatches, more layers, recompute='auto', or devices with more memory"
    )


def _least(graph: Graph, sites: Sequence[Site]) -> float:
    """A lower bound of a microbatch's share of an iteration: as if all devices were of the fastest type."""
    return min(s.pricer.least_seconds(graph) for s in sites) / sum(s.cluster.n_devices for s in sites)


@dataclass(eq=False)
class _Found:
    """One number of microbatches: what stages cost with it, and which are best.

    `owner` is the site of each of the table's submeshes.
    """

    graph: Graph
    sites: Sequence[Site]
    layers: Sequence[Layer]
    microbatches: int
    options: AlpaOptions
    seconds: float = np.inf
    stages: list[Stage] = field(init=False)
    table: StageTable = field(init=False)
    owner: list[int] = field(init=False)
    links: Links = field(init=False)

    def price(self, progress: Callable[[str], None] | None) -> _Found:
        """Price every run of layers on every submesh of every cluster."""
        options = self.options
        recompute: tuple[Recompute, ...] = (
            ("none", "selective", "full") if options.recompute == "auto" else (options.recompute,)
        )
        how = Pricing(options.logical, not options.force_batch, options.workers)
        tables = [
            price_stages(
                self.graph, self.layers, s.cluster, submesh_shapes(s.cluster, options.submeshes), s.pricer,
                microbatches=self.microbatches, recompute=recompute, how=how, progress=progress,
            )
            for s in self.sites
        ]  # fmt: skip
        self.table = StageTable.joined(tables)
        self.owner = [c for c, t in enumerate(tables) for _ in t.submeshes]
        n_bytes = np.zeros((len(self.layers), len(self.layers)))
        if options.cross_stage is not False:
            firsts, lasts = [first for first, _ in self.layers], [last - 1 for _, last in self.layers]
            n_bytes = received_bytes(self.graph, gradients=True)[np.ix_(firsts, lasts)]
        places = [(self.sites[c].cluster, shape) for c, shape in zip(self.owner, self.table.submeshes, strict=True)]
        self.links = links_between(n_bytes, places, options.overlap)
        return self

    def choose(self) -> bool:
        """Choose stages; whether there are any."""
        kinds, best = range(len(self.sites)), None
        devices = [
            [n if c == kind else 0 for kind in kinds]
            for c, n in zip(self.owner, self.table.sizes.tolist(), strict=True)
        ]
        room = np.array([self.sites[c].memory_bytes for c in self.owner])[:, None]
        for later in self.table.later(room, self.options.schedule, self.microbatches):
            try:
                found = linked_stages(
                    self.table.cost(self.microbatches), later, devices, [s.cluster.n_devices for s in self.sites],
                    self.microbatches, self.links,
                )  # fmt: skip
            except InfeasibleError:
                continue
            best = found if best is None or found[0] < best[0] else best
        self.seconds, self.stages = best or (np.inf, [])
        return best is not None

    def plan(self, origin: Origin) -> TrainingPlan:
        """The plan. A stage that has no exact solution is struck out, and stages are chosen anew.

        Raises
        ------
        InfeasibleError
            If no stages are left.
        """
        while True:
            named = [
                (self.layers[i][0], self.layers[j - 1][1], self.table.configs[k][c]) for (i, j), k, c in self.stages
            ]
            try:
                return build_plan(
                    self.graph, self.sites, [(self.owner[k], self.table.submeshes[k]) for _, k, _ in self.stages],
                    [(first, last, how.logical, how.recompute) for first, last, how in named],
                    self.microbatches, self.options, origin,
                )  # fmt: skip
            except InfeasibleError:
                for (i, j), k, c in self.stages:
                    self.table.seconds[i, j - 1, k, c] = np.inf
                if not self.choose():
                    raise
