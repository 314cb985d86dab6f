"""Seconds of collectives for arrays of configurations, on the links that their group really has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....errors import InputError
from ...cluster import Cluster
from .rates import DeviceRates

__all__ = ["GroupLinks"]

Floats = NDArray[np.float64]

RING_S = (3.4e-6, 14e-6)
"""Seconds of a message in NCCL's rings, inside a node and between nodes, by its own tables (`tuning.cc`, "Simple" over
NVLink and the network); links that are faster than these count as they are."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupLinks:
    """Links inside groups of devices, one group shape per row.

    Devices are numbered as Megatron does: tensor-parallel ranks next to each other, then data-parallel, then
    pipeline ranks. A ring over several nodes enters and leaves a node through the network adapters of its members
    there, and shares them with the rings of the other groups, which run at once.

    Parameters
    ----------
    size : array
        Devices of the group.
    reduce_rate, half_rate : array
        Bytes per second that each member sends in a ring (NCCL's bus bandwidth), in all-reduces and in halves of them.
    latency : array
        Fixed seconds of half an all-reduce as a tree: one message per level.
    ring_latency : array
        Fixed seconds of a reduce-scatter or an all-gather. Between nodes NCCL has only rings for them, and counts
        one message between nodes for every node but one, and one inside for every other step (its `tuning.cc`).
    inside : array of bool
        The whole group is in one node.
    network_rate : array
        Bytes per second of a message from each member to one in another node, while the whole stage sends.
    """

    size: Floats
    reduce_rate: Floats
    half_rate: Floats
    latency: Floats
    ring_latency: Floats
    inside: NDArray[np.bool_]
    network_rate: Floats

    @classmethod
    def of(cls, cluster: Cluster, rates: DeviceRates, size: Any, stride: Any, groups: Any = None) -> GroupLinks:
        """Groups of `size` devices that are `stride` apart; `groups` of them lie side by side (by default `stride`)."""
        if cluster.levels:
            raise InputError(f"estimate: {cluster} has levels, of which closed forms know nothing; leave them out")
        n, step = np.broadcast_arrays(np.asarray(size, dtype=float), np.asarray(stride, dtype=float))
        near, far = cluster.spec.intra_node, cluster.spec.inter_node
        per_node = cluster.devices_per_node
        members = np.clip(np.floor(per_node / step), 1, n)  # of one group, in one node
        inside = (n - 1) * step < per_node
        beside = np.minimum(step if groups is None else np.asarray(groups, dtype=float), per_node)
        card = far.bandwidth_bytes_per_s * rates.network
        shared = cluster.devices_per_adapter
        outer = card * np.ceil(np.minimum(beside * members, per_node) / shared) / beside
        network = np.minimum(card * np.ceil(beside / shared) / beside, card)
        levels = np.ceil(np.log2(np.maximum(n, 1)))
        both: list[Floats] = []
        for shares in (rates.all_reduce, rates.half):
            # Measured in groups of 2, 4 and 8: levels 1, 2 and 3. Larger groups take what 8 reach.
            inner = near.bandwidth_bytes_per_s * np.interp(levels, (1, 2, 3), shares)
            both.append(np.where(inside, inner, np.where(members > 1, np.minimum(inner, outer), outer)))
        latency = levels * np.where(inside, near.latency_s, far.latency_s)
        nodes = np.ceil(n / members)
        ring = np.where(
            inside, latency, (nodes - 1) * min(far.latency_s, RING_S[1]) + (n - nodes) * min(near.latency_s, RING_S[0])
        )
        return cls(n, both[0], both[1], latency, ring, inside, network)

    def half(self, n_bytes: Any, messages: Any = 1) -> Floats:
        """A reduce-scatter or an all-gather of `n_bytes`: each sends ``(n - 1) / n`` of them. 0 in a group of one.
        The bytes may be in several messages, each with its latency."""
        seconds = messages * self.ring_latency + (self.size - 1) / self.size * n_bytes / self.half_rate
        return np.where((self.size > 1) & (np.asarray(n_bytes) > 0), seconds, 0.0)

    def all_reduce(self, n_bytes: Any) -> Floats:
        """An all-reduce: twice the bytes and the latency of a reduce-scatter."""
        seconds = 2 * self.latency + 2 * (self.size - 1) / self.size * n_bytes / self.reduce_rate
        return np.where((self.size > 1) & (np.asarray(n_bytes) > 0), seconds, 0.0)

    def send(self, n_bytes: Any, cluster: Cluster, rates: DeviceRates) -> Floats:
        """One message to the next member, which is in another node unless the whole group is in one."""
        near, far, amount = cluster.spec.intra_node, cluster.spec.inter_node, np.asarray(n_bytes, dtype=float)
        by_link = near.latency_s + amount / (near.bandwidth_bytes_per_s * rates.half[0])
        by_network = far.latency_s + amount / self.network_rate
        return np.where(self.size > 1, np.where(self.inside, by_link, by_network), 0.0)
