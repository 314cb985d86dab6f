"""The clusters of a training case."""

from __future__ import annotations

from dataclasses import replace

from ...errors import InputError
from ...profiles.hardware import LinkSpec, device
from ...simulator.cluster import Cluster
from ...simulator.topology import Level
from .case import TrainingCase, TrainingClusterCase

__all__ = ["check_further", "cluster_of", "further_clusters_of"]

ALPA = "alpa"
"""The planner that plans for several clusters."""


def cluster_of(case: TrainingCase) -> Cluster:
    """The devices: full nodes, or where these do not come out even the largest equal nodes."""
    c = case.cluster
    per_node = next(n for n in range(min(c.devices, c.devices_per_node), 0, -1) if c.devices % n == 0)
    spec = device(c.device)
    memory, speed = c.device_memory, case.speed.get(c.device, 1.0)
    changed = replace(
        spec,
        memory_bytes=memory,
        usable_memory_bytes=min(spec.usable_memory_bytes, memory),
        peak_flops=spec.peak_flops * speed,
        memory_bandwidth_bytes_per_s=spec.memory_bandwidth_bytes_per_s * speed,
        intra_node=_link(spec.intra_node, c.intra_node_bandwidth, c.link_scale),
        inter_node=_link(spec.inter_node, c.inter_node_bandwidth, c.link_scale),
    )
    levels = () if c.rack_nodes is None else (Level(c.rack_nodes, c.oversubscription, rails=c.rails),)
    return Cluster(c.devices // per_node, per_node, c.device if changed == spec else changed, levels)


def further_clusters_of(case: TrainingCase) -> tuple[Cluster, ...]:
    """The clusters that `cluster.also` says."""
    found: list[Cluster] = []
    for one in filter(None, (text.strip() for text in case.cluster.also.split(","))):
        sizes, name = one.split("x")[:2], one.split("x", 2)[-1]
        if not (len(sizes) == 2 and sizes[0].isdigit() and sizes[1].isdigit()):
            sizes, name = sizes[:1], one.partition("x")[2]
        if not name or not all(n.isdigit() and int(n) for n in sizes):
            raise InputError(
                f"expected devices x type, such as 4xv100-16gb, or nodes x devices x type, such as 2x8xv100-16gb "
                f"(got {one!r})"
            )
        c = case.cluster
        part = TrainingClusterCase(
            devices=int(sizes[-1]) * (int(sizes[0]) if sizes[1:] else 1), device=name, link_scale=c.link_scale,
            devices_per_node=int(sizes[-1]) if sizes[1:] else c.devices_per_node,
        )  # fmt: skip
        found.append(cluster_of(case.model_copy(update={"cluster": part})))
    return tuple(found)


def check_further(case: TrainingCase) -> None:
    """Refuse what goes with one cluster only, and further clusters that are none.

    Raises
    ------
    InputError
        Says what goes together.
    """
    further_clusters_of(case)
    for wrong, what in (
        (case.planner.name != ALPA, f"planner {case.planner.name} plans for one cluster; take {ALPA}"),
        (case.cluster.rack_nodes is not None, "several clusters go without rack_nodes; leave one of them out"),
        (case.cluster.shared_links, "several clusters go without shared_links; leave one of them out"),
        (case.failures.some, "failures are simulated of one cluster only; leave mtbf and node_mtbf out"),
    ):
        if wrong:
            raise InputError(what)


def _link(link: LinkSpec, bandwidth: float | None, factor: float) -> LinkSpec:
    wide = link.bandwidth_bytes_per_s if bandwidth is None else bandwidth
    return LinkSpec(wide * factor, link.latency_s)
