"""Clusters: nodes of equal devices, and the links between them."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
from dataclasses import dataclass

from ..errors import InputError
from ..profiles.devices import DEVICES
from ..profiles.hardware import DeviceSpec, LinkSpec
from ..profiles.hardware import device as device_by_name
from ..reprs import Shown

__all__ = ["MAX_DEVICES", "Cluster"]

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

    Raises
    ------
    InputError
        On a count below one, more devices than `MAX_DEVICES`, or an unknown device.
    """

    # The default is a node of AlpaServe's testbed (§6.1: p3.16xlarge, eight 16 GB V100).
    nodes: int = 1
    devices_per_node: int = 8
    device: str | DeviceSpec = "v100-16gb"

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
        """The class of link between two devices."""
        return self.spec.intra_node if self.node_of(a) == self.node_of(b) else self.spec.inter_node

    def __str__(self) -> str:
        return f"{self.nodes} node(s) x {self.devices_per_node} {self.spec.name}"
