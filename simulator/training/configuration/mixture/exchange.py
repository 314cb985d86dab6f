"""`Exchange`: all-to-all between the devices of a group, over links inside nodes and network adapters at once."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....cluster import Cluster
from ..rates import DeviceRates
from .parts import Experts

__all__ = ["Exchange", "nodes_met"]

Floats = NDArray[np.float64]


def nodes_met(experts: Experts, nodes: int) -> float:
    """Nodes that the experts of one token are on, on average, with even routing over `nodes` nodes: each has as many of
    the experts. Under node-limited routing the token first chooses its nodes, and then experts on them."""
    among = min(experts.nodes, nodes) if experts.nodes else nodes
    each = max(experts.count // nodes, 1)
    inside = among * each
    if inside < experts.top_k:  # more experts per token than these nodes have: all of them
        return float(among)
    return among * (1 - comb(inside - each, experts.top_k) / comb(inside, experts.top_k))


@dataclass(frozen=True, slots=True, eq=False)
class Exchange:
    """All-to-all in groups of `size` devices, `stride` apart, all devices of a node at once, one group shape per row.

    Parameters
    ----------
    size : array
        Devices of a group.
    near, far : array
        Of what a device sends to all evenly, the share that goes to others in its node, and to other nodes.
    once : array
        Shares of the network where a token goes to each node once, and is passed on there: copies of a token, not of
        a token for each of its experts.
    forwarded : array
        Share of what goes over links inside nodes then.
    near_rate, far_rate : array
        Bytes per second that one device reaches inside a node, and over its share of the node's network adapters.
    latency : array
        Fixed seconds: one message over the longest link, since all are under way at once.
    """

    size: Floats
    near: Floats
    far: Floats
    once: Floats
    forwarded: Floats
    near_rate: Floats
    far_rate: float
    latency: Floats

    @classmethod
    def of(
        cls, cluster: Cluster, rates: DeviceRates, size: Any, stride: Any, experts: Experts | None = None
    ) -> Exchange:
        """Links of such groups; with `experts`, also what a token that is sent once to each node crosses."""
        n, step = np.broadcast_arrays(np.asarray(size, dtype=float), np.asarray(stride, dtype=float))
        spec, per_node = cluster.spec, cluster.devices_per_node
        members = np.clip(np.floor(per_node / step), 1, n)
        nodes = np.ceil(n / members)
        met = np.ones_like(n)
        if experts is not None:
            for count in np.unique(nodes):
                met[nodes == count] = nodes_met(experts, int(count))
        shares = np.interp(np.ceil(np.log2(np.maximum(members, 1))), (1, 2, 3), rates.half)
        adapters = cluster.adapters(per_node)
        far = spec.inter_node.bandwidth_bytes_per_s * rates.network * adapters / per_node
        inside = nodes <= 1
        latency = np.where(inside, spec.intra_node.latency_s, spec.inter_node.latency_s)
        return cls(
            n, (members - 1) / n, (n - members) / n, met * (nodes - 1) / nodes, (members - 1) / members,
            spec.intra_node.bandwidth_bytes_per_s * shares, far, np.where(n > 1, latency, 0.0),
        )  # fmt: skip

    def even(self, n_bytes: Any) -> Floats:
        """Seconds in which each device hands `n_bytes` evenly to all devices of its group, itself included."""
        near, far = self.near * n_bytes / self.near_rate, self.far * n_bytes / self.far_rate
        return np.where(self.size > 1, self.latency + np.maximum(near, far), 0.0)

    def tokens(self, n_bytes: Any, top_k: int, load: float, *, once: bool) -> Floats:
        """Seconds in which the tokens of each device, `n_bytes` in all, go to `top_k` experts each.

        The device with most receives `load` times the mean. `once`: to each node once.
        """
        if not once:
            return self.even(n_bytes * top_k * load)
        near = self.forwarded * n_bytes * top_k * load / self.near_rate
        far = self.once * n_bytes * load / self.far_rate
        return np.where(self.size > 1, self.latency + np.maximum(near, far), 0.0)
