"""From a cluster to its entry in a plan, and back."""

from __future__ import annotations

from dataclasses import asdict

from ...profiles.devices import DEVICES
from ...profiles.hardware import DeviceSpec, LinkSpec
from ..cluster import Cluster
from ..topology import Level
from .entries import ClusterEntry, DeviceEntry, LevelEntry

__all__ = ["cluster_entry", "cluster_of"]


def cluster_entry(cluster: Cluster) -> ClusterEntry:
    """A cluster with its device type spelt out."""
    spec = cluster.spec
    plain = {f: getattr(spec, f) for f in DeviceEntry.model_fields if f not in ("intra_node", "inter_node")}
    device = DeviceEntry(
        **plain,
        intra_node=(spec.intra_node.bandwidth_bytes_per_s, spec.intra_node.latency_s),
        inter_node=(spec.inter_node.bandwidth_bytes_per_s, spec.inter_node.latency_s),
    )
    levels = tuple(LevelEntry(**asdict(level)) for level in cluster.levels)
    return ClusterEntry(nodes=cluster.nodes, devices_per_node=cluster.devices_per_node, device=device, levels=levels)


def cluster_of(entry: ClusterEntry) -> Cluster:
    """The cluster of a plan. A device type that Meshwright ships is given by its name, any other by its fields."""
    fields = entry.device.model_dump()
    for link in ("intra_node", "inter_node"):
        fields[link] = LinkSpec(*fields[link])
    spec = DeviceSpec(**fields)
    shipped = DEVICES.get(spec.name) == spec
    levels = tuple(Level(**level.model_dump()) for level in entry.levels)
    return Cluster(entry.nodes, entry.devices_per_node, spec.name if shipped else spec, levels)
