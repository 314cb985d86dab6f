"""`plan_heterogeneous`: stages on several clusters of different device types at once (beyond the paper).

Each cluster has its own submeshes, costs and memory, and each stage lies in one cluster. The stage programme counts the
devices of each cluster separately (`linked_stages`) and uses all of them. A plan file holds only one cluster, so the
result is the list of stages with the seconds of Eq. 2, and not a plan file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import InfeasibleError, InputError
from ...profiles.graph import Graph
from ...reprs import Shown
from ...simulator.cluster import Cluster
from ...simulator.mesh import Mesh
from ...simulator.training.plan.entries import MeshEntry
from .inter.assemble import mesh_entries
from .inter.clustering import cluster_operators, default_layers
from .inter.crossing import received_bytes
from .inter.linked import linked_stages, links_between
from .inter.memory import in_flight
from .inter.pricing.intra_pricer import IntraPricer
from .inter.pricing.pricer import Pricer, Pricing, Recompute, StagePlan, price_stages
from .inter.pricing.table import StageTable
from .inter.shapes import submesh_shapes
from .options import AlpaOptions
from .planner import check_request
from .stages import Stage

__all__ = ["HeterogeneousPlan", "HeterogeneousStage", "plan_heterogeneous"]


@dataclass(frozen=True, slots=True)
class HeterogeneousStage:
    """One stage.

    Parameters
    ----------
    first, last : int
        Operators first … last − 1 of the graph.
    cluster : int
        Number of the cluster that the stage lies in.
    mesh : MeshEntry
        The devices that it runs on.
    logical : (int, int)
        Logical mesh shape.
    recompute : {"none", "selective", "full"}
        Activation recomputation.
    plan : StagePlan
        How its operators are run, and what that takes.
    """

    first: int
    last: int
    cluster: int
    mesh: MeshEntry
    logical: tuple[int, int]
    recompute: Recompute
    plan: StagePlan


@dataclass(frozen=True, slots=True, repr=False)
class HeterogeneousPlan(Shown):
    """Stages over several clusters.

    Parameters
    ----------
    clusters : tuple of Cluster
        The clusters, one for each kind of device.
    microbatches : int
        B, microbatches of one iteration.
    stages : tuple of HeterogeneousStage
        The stages, first to last.
    seconds : float
        Of an iteration, Eq. 2; with transfers between stages where `cross_stage` asks for them.
    """

    clusters: tuple[Cluster, ...]
    microbatches: int
    stages: tuple[HeterogeneousStage, ...]
    seconds: float


def plan_heterogeneous(
    graph: Graph,
    clusters: Sequence[Cluster],
    *,
    global_batch: int,
    microbatches: int,
    options: AlpaOptions | Mapping[str, Any] | None = None,
    pricers: Sequence[Pricer] | None = None,
    progress: Callable[[str], None] | None = None,
) -> HeterogeneousPlan:
    """The least seconds over all stages on submeshes of all clusters; every device is used.

    Parameters
    ----------
    graph : Graph
        The model.
    clusters : sequence of Cluster
        One for each device type; joined by the slower one's network.
    global_batch, microbatches : int
        Samples of an iteration, and B.
    options : AlpaOptions or mapping, optional
        As for `planners.alpa.plan`; stages, interleaving and ε do not apply.
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
    chosen = AlpaOptions.of(options)
    if not clusters:
        raise InputError("alpa: clusters: expected at least one")
    for cluster in clusters:
        check_request(graph, cluster, global_batch, microbatches)
    if chosen.stages != "any" or chosen.interleave > 1 or chosen.epsilon:
        raise InputError("alpa: several device types go with stages 'any', interleave 1 and epsilon 0 only")
    sized = graph.with_batch(global_batch // microbatches)
    n_devices = sum(c.n_devices for c in clusters)
    layers = cluster_operators(
        graph, chosen.n_layers or default_layers(graph, n_devices), chosen.delta, chosen.clustering
    )
    sources = list(pricers) if pricers is not None else [IntraPricer.of(c, chosen) for c in clusters]
    recompute: tuple[Recompute, ...] = (
        ("none", "selective", "full") if chosen.recompute == "auto" else (chosen.recompute,)
    )
    tables = [
        price_stages(
            sized, layers, c, submesh_shapes(c, chosen.submeshes), source, microbatches=microbatches,
            recompute=recompute, how=Pricing(chosen.logical, not chosen.force_batch, chosen.workers), progress=progress,
        )
        for c, source in zip(clusters, sources, strict=True)
    ]  # fmt: skip
    memory = [c.spec.memory_bytes * chosen.memory_fraction for c in clusters]
    found, seconds = _stages(tables, clusters, memory, sized, layers, microbatches, chosen)
    placed: list[list[MeshEntry]] = []
    for at, cluster in enumerate(clusters):
        shapes = [tables[at].submeshes[k] for _, c, k, _ in found if c == at]
        placed.append(list(mesh_entries(shapes, cluster)))
    stages: list[HeterogeneousStage] = []
    for s, ((i, j), c, k, config) in enumerate(found):
        name = tables[c].configs[k][config]
        mesh = placed[c].pop(0)
        first, last = layers[i][0], layers[j - 1][1]
        where = Mesh(clusters[c], mesh.hosts, mesh.devices, mesh.first_host, mesh.first_device).view(name.logical)
        held = in_flight(chosen.schedule, s, len(found), microbatches)
        plan = sources[c].stage(sized, first, last, where, name.recompute, microbatches, held, memory[c])
        stages.append(HeterogeneousStage(first, last, c, mesh, name.logical, name.recompute, plan))
    return HeterogeneousPlan(tuple(clusters), microbatches, tuple(stages), seconds)


Found = list[tuple[tuple[int, int], int, int, int]]
"""(layers half-open, cluster, submesh of its table, configuration) of each stage."""


def _stages(
    tables: Sequence[StageTable], clusters: Sequence[Cluster], memory: Sequence[float], graph: Graph,
    layers: Sequence[tuple[int, int]], microbatches: int, options: AlpaOptions,
) -> tuple[Found, float]:  # fmt: skip
    table = StageTable.joined(tables)
    room = np.repeat(memory, [len(t.submeshes) for t in tables])[:, None]
    owner = [(c, k) for c, t in enumerate(tables) for k in range(len(t.submeshes))]
    devices = [[int(tables[c].sizes[k]) if c == kind else 0 for kind in range(len(tables))] for c, k in owner]
    n_bytes = np.zeros((len(layers), len(layers)))
    if options.cross_stage is not False:
        firsts, lasts = [first for first, _ in layers], [last - 1 for _, last in layers]
        n_bytes = received_bytes(graph, gradients=True)[np.ix_(firsts, lasts)]
    links = links_between(n_bytes, [(clusters[c], tables[c].submeshes[k]) for c, k in owner], options.overlap)
    best: tuple[float, list[Stage]] | None = None
    for later in table.later(room, options.schedule, microbatches):
        try:
            found = linked_stages(
                table.cost(microbatches), later, devices, [c.n_devices for c in clusters], microbatches, links
            )
        except InfeasibleError:
            continue
        best = found if best is None or found[0] < best[0] else best
    if best is None:
        names = ", ".join(map(str, clusters))
        raise InfeasibleError(
            f"alpa: no stages of {graph.name!r} with {microbatches} microbatches use every device of {names} and fit "
            "their memory; use smaller microbatches, more layers, recompute='auto', or devices with more memory"
        )
    return [(span, *owner[k], config) for span, k, config in best[1]], best[0]
