"""`Spread`: how a layer's tokens and experts are laid over devices beside tensor parallelism, as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....cluster import Cluster
from ..collectives import GroupLinks
from ..columns import Columns
from ..mixture.exchange import Exchange
from ..model import TransformerShape
from ..rates import DeviceRates

__all__ = ["Spread"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """Context and expert parallelism, one value per row.

    Parameters
    ----------
    cp : array
        Devices that share a sequence.
    by_heads : array of bool
        Whether they exchange heads for sequence around the attention core (Ulysses), and not keys and values in a ring.
    ring : GroupLinks
        Their links, for a message to the next.
    around : Exchange
        Their links, for an all-to-all.
    ep, etp : array
        Devices that share a layer's experts, and that share each of them.
    tensor, slices : GroupLinks
        Links of tensor-parallel groups, and of those that share an expert.
    experts : Exchange
        Links of those that share a layer's experts.
    overlap : array of bool
        Whether tokens travel beside the other microbatch's layers.
    cluster, rates
        Where they are, and what its links reach.
    """

    cp: Floats
    by_heads: NDArray[np.bool_]
    ring: GroupLinks
    around: Exchange
    ep: Floats
    etp: Floats
    tensor: GroupLinks
    slices: GroupLinks
    experts: Exchange
    overlap: NDArray[np.bool_]
    cluster: Cluster
    rates: DeviceRates

    @classmethod
    def of(cls, shape: TransformerShape, cluster: Cluster, rates: DeviceRates, c: Columns) -> Spread:
        """Of configurations."""
        etp = c.expert_tensor
        return cls(
            c.cp.astype(float),
            c.by_heads,
            GroupLinks.of(cluster, rates, c.cp, c.tp),
            Exchange.of(cluster, rates, c.cp, c.tp),
            c.ep.astype(float),
            etp.astype(float),
            GroupLinks.of(cluster, rates, c.tp, 1),
            GroupLinks.of(cluster, rates, etp, 1),
            Exchange.of(cluster, rates, c.ep, etp, shape.experts),
            c.overlap_experts,
            cluster,
            rates,
        )

    def hop(self, n_bytes: Floats) -> Floats:
        """Seconds of a message to the next device of the ring."""
        return self.ring.send(n_bytes, self.cluster, self.rates)
