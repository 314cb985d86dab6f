"""`MixedCluster`: pools of devices of several types, numbered through."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from ..errors import InputError
from ..profiles.hardware import LinkSpec
from ..reprs import Shown
from .cluster import Cluster

__all__ = ["MixedCluster"]


@dataclass(frozen=True, slots=True, repr=False)
class MixedCluster(Shown):
    """Several clusters beside each other, each of one device type.

    Devices are numbered 0 … ``n_devices - 1``, pool by pool, within a pool as its cluster numbers them; nodes too.

    Parameters
    ----------
    pools : tuple of Cluster
        The clusters; no device type twice.

    Raises
    ------
    InputError
        On no pool, or two of one device type.
    """

    pools: tuple[Cluster, ...]

    def __post_init__(self) -> None:
        names = [pool.spec.name for pool in self.pools]
        if not names:
            raise InputError("MixedCluster: no pool; expected at least one")
        twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
        if twice is not None:
            raise InputError(f"MixedCluster: two pools of {twice}; expected one for each device type, with all of it")

    @classmethod
    def of(cls, cluster: Cluster | MixedCluster) -> MixedCluster:
        """A cluster as the only pool of one; a mixed one as it is."""
        return cluster if isinstance(cluster, MixedCluster) else cls((cluster,))

    @property
    def n_devices(self) -> int:
        """Devices of all pools."""
        return sum(pool.n_devices for pool in self.pools)

    def first(self, pool: int) -> int:
        """Number of a pool's first device."""
        return sum(each.n_devices for each in self.pools[:pool])

    def pool_of(self, device: int) -> int:
        """Pool in which a device stands.

        Raises
        ------
        InputError
            If there is no such device.
        """
        for number, end in enumerate(accumulate(pool.n_devices for pool in self.pools)):
            if 0 <= device < end:
                return number
        raise InputError(f"device: no device {device!r}; {self} has 0 … {self.n_devices - 1}")

    @property
    def nodes(self) -> int:
        """Nodes of all pools."""
        return sum(pool.nodes for pool in self.pools)

    def on_node(self, device: int) -> tuple[int, int]:
        """Node of a device, numbered through the pools, and its number on that node."""
        pool = self.pool_of(device)
        before, within = sum(each.nodes for each in self.pools[:pool]), device - self.first(pool)
        node, place = divmod(within, self.pools[pool].devices_per_node)
        return before + node, place

    def between(self, a: int, b: int) -> LinkSpec:
        """The class of link between two devices; of two types the slower network, and the longer way."""
        one, other = self.pool_of(a), self.pool_of(b)
        if one == other:
            first = self.first(one)
            return self.pools[one].link(a - first, b - first)
        links = [self.pools[pool].spec.inter_node for pool in (one, other)]
        return LinkSpec(min(x.bandwidth_bytes_per_s for x in links), max(x.latency_s for x in links))

    def __str__(self) -> str:
        return " + ".join(map(str, self.pools))
