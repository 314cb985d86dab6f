"""Clusters: nodes of equal devices, and the links between them."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import InputError
from ..profiles.devices import DEVICES
from ..profiles.hardware import DeviceSpec, LinkSpec
from ..profiles.hardware import device as device_by_name
from ..reprs import Shown
from .topology import Level, check_levels

if TYPE_CHECKING:
    from .collective_tables import CollectiveTables

__all__ = ["MAX_DEVICES", "Cluster", "JoinedClusters"]

Uplink = tuple[int, int, int]
"""Level, group, and rail, which is 0 where there are none."""

MAX_DEVICES = 100_000
"""Most devices of a cluster: more than the largest clusters have, so a larger number is a slip of the pen."""


@dataclass(frozen=True, slots=True, repr=False)
class Cluster(Shown):
    """`nodes` nodes with `devices_per_node` devices each, all of one type.

    Devices are numbered 0 … ``n_devices - 1``, node by node.

    Parameters
    ----------
    nodes : int
        Number of nodes.
    devices_per_node : int
        Devices in each node.
    device : str or DeviceSpec
        Device type: a name (`meshwright.profiles.DEVICES`), a file (`profiles.device_file`), or a specification.
    levels : tuple of Level
        What joins the nodes, from the inside out: racks or rails, pods. Without any, all adapters reach each other at
        their full rate. A node is what one NVLink domain joins: a rack of 72 such devices is a node of 72.
    collectives : CollectiveTables, optional
        Measured collectives of groups inside a node, which meshes count with; others are rings of α–β messages.

    Raises
    ------
    InputError
        On a count below one, more devices than `MAX_DEVICES`, an unknown device, or levels that do not nest.
    """

    # The default is a node of AlpaServe's testbed (§6.1: p3.16xlarge, eight 16 GB V100).
    nodes: int = 1
    devices_per_node: int = 8
    device: str | DeviceSpec = "v100-16gb"
    levels: tuple[Level, ...] = ()
    collectives: CollectiveTables | None = None

    def __post_init__(self) -> None:
        for name in ("nodes", "devices_per_node"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"Cluster.{name}: expected a positive integer (got {value!r})")
        if self.nodes * self.devices_per_node > MAX_DEVICES:
            raise InputError(
                f"Cluster: {self.nodes} x {self.devices_per_node} devices; expected at most {MAX_DEVICES:,} in all"
            )
        if isinstance(self.device, str):
            found = device_by_name(self.device)
            # By its shipped name where it has one; a file is read once, here.
            object.__setattr__(self, "device", found.name if found.name in DEVICES else found)
        elif not isinstance(self.device, DeviceSpec):
            raise InputError(f"Cluster.device: expected a name or a DeviceSpec (got {type(self.device).__name__})")
        object.__setattr__(self, "levels", check_levels(self.levels))

    @classmethod
    def of(cls, n_devices: int, device: str | DeviceSpec = "v100-16gb", devices_per_node: int = 8) -> Cluster:
        """A cluster of exactly `n_devices`: one node if they fit in it, else full nodes if that comes out even, else
        nodes of one device.

        Raises
        ------
        InputError
            On a count below one, or an unknown device.
        """
        if n_devices <= devices_per_node:
            return cls(1, n_devices, device)
        if n_devices % devices_per_node:
            # Nodes are all alike, so a node that is half full cannot be said. Nodes of one device have only the slow
            # link between them: no plan is promised a fast link that may not be there.
            return cls(n_devices, 1, device)
        return cls(n_devices // devices_per_node, devices_per_node, device)

    @property
    def n_devices(self) -> int:
        """Number of devices."""
        return self.nodes * self.devices_per_node

    @property
    def spec(self) -> DeviceSpec:
        """Specification of each device."""
        return device_by_name(self.device) if isinstance(self.device, str) else self.device

    @property
    def memory_bytes(self) -> int:
        """Memory usable for weights on each device, bytes."""
        return self.spec.usable_memory_bytes

    def node_of(self, device: int) -> int:
        """Node that holds `device`."""
        return device // self.devices_per_node

    @property
    def devices_per_adapter(self) -> int:
        """Adjacent devices of a node that share a network adapter."""
        return min(self.spec.devices_per_adapter or self.devices_per_node, self.devices_per_node)

    def adapter_of(self, device: int) -> int:
        """Network adapter of `device`; adapters are numbered node by node."""
        node, place = divmod(device, self.devices_per_node)
        return node * self.adapters(self.devices_per_node) + place // self.devices_per_adapter

    def adapters(self, devices: int, first: int = 0) -> int:
        """Network adapters that `devices` adjacent devices of a node have between them, from its device `first` on."""
        shared = self.devices_per_adapter
        return (first + devices - 1) // shared - first // shared + 1

    def link(self, a: int, b: int) -> LinkSpec:
        """The class of link between two devices, with the latency of the outermost level that is left."""
        if self.node_of(a) == self.node_of(b):
            return self.spec.intra_node
        far = self.spec.inter_node
        left = [self.levels[leaves[0]].latency_s for leaves, *_ in self.uplinks(a, b)]
        said = [latency_s for latency_s in left if latency_s is not None]
        return LinkSpec(far.bandwidth_bytes_per_s, said[-1]) if said else far

    def uplinks(self, a: int, b: int) -> Iterator[tuple[Uplink, Uplink, float]]:
        """Uplinks by which a message leaves and enters groups on its way between two nodes, and bytes/s of each."""
        for k, level in enumerate(self.levels):
            leaves, enters = self.uplink_of(a, k), self.uplink_of(b, k)
            if leaves != enters:
                rails = self.adapters(self.devices_per_node) if level.rails else 1
                yield leaves, enters, self.uplink_bytes_per_s(level) / rails

    def uplink_of(self, device: int, level: int) -> Uplink:
        """The uplink of a device's group of a level."""
        place = device % self.devices_per_node // self.devices_per_adapter if self.levels[level].rails else 0
        return level, self.node_of(device) // self.levels[level].nodes, place

    def uplink_bytes_per_s(self, level: Level) -> float:
        """What all uplinks of one group of a level carry in one direction, bytes per second."""
        adapters = level.nodes * self.adapters(self.devices_per_node)
        return adapters * self.spec.inter_node.bandwidth_bytes_per_s / level.oversubscription

    def __str__(self) -> str:
        levels = "".join(f", {x.nodes} nodes a {'rail' if x.rails else 'group'}" for x in self.levels)
        return f"{self.nodes} node(s) x {self.devices_per_node} {self.spec.name}{levels}"


@dataclass(frozen=True, slots=True, repr=False)
class JoinedClusters(Shown):
    """Clusters of different devices, joined by a network: between two of them it is the slower one's.

    Devices, nodes and network adapters are numbered through, cluster by cluster.

    Parameters
    ----------
    clusters : tuple of Cluster
        One for each device type.

    Raises
    ------
    InputError
        If one has levels: which of them a message between clusters leaves is not known.
    """

    clusters: tuple[Cluster, ...]

    def __post_init__(self) -> None:
        said = next((c for c in self.clusters if c.levels), None)
        if said is not None:
            raise InputError(f"clusters: {said} has levels, which go with one cluster only; leave them out")

    def first_device(self, part: int) -> int:
        """Number of the first device of a cluster."""
        return sum(c.n_devices for c in self.clusters[:part])

    def part_of(self, device: int) -> int:
        """Number of the cluster that holds `device`."""
        return next(p for p in range(len(self.clusters)) if device < self.first_device(p + 1))

    def node_of(self, device: int) -> int:
        """Node that holds `device`."""
        part = self.part_of(device)
        before = sum(c.nodes for c in self.clusters[:part])
        return before + self.clusters[part].node_of(device - self.first_device(part))

    def adapter_of(self, device: int) -> int:
        """Network adapter of `device`."""
        part = self.part_of(device)
        before = sum(c.nodes * c.adapters(c.devices_per_node) for c in self.clusters[:part])
        return before + self.clusters[part].adapter_of(device - self.first_device(part))

    def uplinks(self, a: int, b: int) -> Iterator[tuple[Uplink, Uplink, float]]:
        """None: a cluster among others has no levels."""
        return iter(())

    def link(self, a: int, b: int) -> LinkSpec:
        """The class of link between two devices."""
        one, other = self.part_of(a), self.part_of(b)
        if one == other:
            first = self.first_device(one)
            return self.clusters[one].link(a - first, b - first)
        return self.between(self.clusters[one], self.clusters[other])

    @staticmethod
    def between(one: Cluster, other: Cluster) -> LinkSpec:
        """The network between two clusters: nothing goes faster than its receiver takes it."""
        return min((one.spec.inter_node, other.spec.inter_node), key=lambda link: link.bandwidth_bytes_per_s)

    def __str__(self) -> str:
        return " + ".join(map(str, self.clusters))
