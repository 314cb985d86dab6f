"""`Mesh` and `LogicalMesh`: a submesh of a cluster, its two-dimensional views, and what collectives cost on them.

Begin with `LogicalMesh.seconds`. `COLLECTIVES` holds the α–β formulas, `AxisLink` the α and β of one mesh axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from ..errors import InputError
from .cluster import Cluster

if TYPE_CHECKING:
    from .collective_tables import CollectiveTables

__all__ = ["COLLECTIVES", "AxisLink", "Collective", "LogicalMesh", "Mesh"]

Collective = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]


@dataclass(frozen=True, slots=True)
class AxisLink:
    """The α–β parameters of communication along one axis of a logical mesh, or along both.

    Parameters
    ----------
    size : int
        Devices in a group.
    bandwidth_bytes_per_s : float
        What each device can send while all groups of the axis communicate at once, bytes per second.
    latency_s : float
        Fixed cost of one message, seconds.
    """

    size: int
    bandwidth_bytes_per_s: float
    latency_s: float


def _all_gather(n_bytes: float, link: AxisLink) -> float:
    n = link.size
    return (n - 1) * link.latency_s + (n - 1) / n * n_bytes / link.bandwidth_bytes_per_s


def _all_reduce(n_bytes: float, link: AxisLink) -> float:
    return 2 * _all_gather(n_bytes, link)  # a reduce-scatter, which costs as much, and then an all-gather


COLLECTIVES: Mapping[str, Callable[[float, AxisLink], float]] = MappingProxyType(
    {
        "all_reduce": _all_reduce,
        "all_gather": _all_gather,
        "reduce_scatter": _all_gather,
        "all_to_all": _all_gather,
    }
)
"""Collective -> function of (bytes, link) that gives its seconds under the α–β model. All-to-alls send each piece
directly to its receiver, the others are rings. The bytes are the larger of a device's input and output: the result of
an all-gather, the operand of a reduce-scatter, the buffer of an all-reduce or all-to-all."""


@dataclass(frozen=True, slots=True)
class Mesh:
    """A rectangle of a cluster: `hosts` nodes, `devices` adjacent devices in each.

    Parameters
    ----------
    cluster : Cluster
        The cluster that the rectangle is cut from.
    hosts, devices : int
        Number of nodes, and of devices in each.
    first_host, first_device : int
        The first node, and the first device in each node.

    Raises
    ------
    InputError
        If it does not lie in the cluster.
    """

    cluster: Cluster
    hosts: int
    devices: int
    first_host: int = 0
    first_device: int = 0

    def __post_init__(self) -> None:
        inside = self.first_host + self.hosts <= self.cluster.nodes
        if not (self.hosts >= 1 and self.devices >= 1 and inside) or (
            self.first_device + self.devices > self.cluster.devices_per_node
        ):
            raise InputError(
                f"mesh: expected a rectangle of {self.cluster.nodes} x {self.cluster.devices_per_node} devices (got "
                f"{self.hosts} x {self.devices} at ({self.first_host}, {self.first_device}))"
            )

    @property
    def n_devices(self) -> int:
        """Number of devices."""
        return self.hosts * self.devices

    @property
    def device_ids(self) -> tuple[int, ...]:
        """Devices in row-major order, as the cluster numbers them."""
        width = self.cluster.devices_per_node
        return tuple(
            host * width + device
            for host in range(self.first_host, self.first_host + self.hosts)
            for device in range(self.first_device, self.first_device + self.devices)
        )

    @property
    def logical_shapes(self) -> tuple[tuple[int, int], ...]:
        """All two-dimensional views: (n0, n1) with n0 · n1 devices."""
        n = self.n_devices
        return tuple((a, n // a) for a in range(1, n + 1) if n % a == 0)

    def view(self, shape: tuple[int, int], tables: CollectiveTables | None = None) -> LogicalMesh:
        """A logical mesh over these devices, with measured collectives where there are tables.

        Raises
        ------
        InputError
            If the shape is not two-dimensional or has another number of devices.
        """
        return LogicalMesh(self, shape, tables)


@dataclass(frozen=True, slots=True)
class LogicalMesh:
    """A two-dimensional view of a mesh (Alpa §4.1). Devices fill it row by row: axis 1 joins neighbours.

    Parameters
    ----------
    mesh : Mesh
        The devices.
    shape : (int, int)
        (n0, n1).
    tables : CollectiveTables, optional
        Measured collectives of groups inside a node; others are rings of α–β messages.
    """

    mesh: Mesh
    shape: tuple[int, int]
    tables: CollectiveTables | None = None

    def __post_init__(self) -> None:
        if len(self.shape) != 2 or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in self.shape):
            raise InputError(f"logical mesh: expected two positive sizes (got {self.shape!r})")
        if self.shape[0] * self.shape[1] != self.mesh.n_devices:
            raise InputError(f"logical mesh: {self.shape} is no view of {self.mesh.n_devices} devices")

    def size(self, axes: tuple[int, ...]) -> int:
        """Devices in a group along these axes; 1 for none."""
        return int(self.shape[0] ** (0 in axes) * self.shape[1] ** (1 in axes))

    def inside(self, axes: tuple[int, ...]) -> bool:
        """Whether every communication group along these axes lies within one node."""
        n0, n1 = self.shape
        if set(axes) == {1}:
            return self.mesh.devices % n1 == 0  # groups of neighbours; those that span nodes fill them or share none
        return self.mesh.hosts == 1 if len(set(axes)) == 2 else n0 * n1 <= self.mesh.devices

    def link(self, axes: tuple[int, ...]) -> AxisLink:
        """The link along one axis, or along both.

        A ring that stays in a node runs over the node's links. The rings that leave it cross every node's network
        adapters once: all of the mesh's, in equal shares.
        """
        spec, width = self.mesh.cluster.spec, self.mesh.devices
        n1, size = self.shape[1], self.size(axes)
        rings = min(n1, width) if set(axes) == {0} else self._rows_through_a_node if set(axes) == {1} else 1
        near, far = spec.intra_node, spec.inter_node
        if size == 1 or self.inside(axes):
            return AxisLink(size, near.bandwidth_bytes_per_s, near.latency_s)
        shared = self._adapters * far.bandwidth_bytes_per_s / rings
        return AxisLink(size, min(near.bandwidth_bytes_per_s, shared), far.latency_s)

    @property
    def _rows_through_a_node(self) -> int:
        """Rows that cross a node at most: one where they fill nodes, two where one ends and the next begins in it."""
        n1, width = self.shape[1], self.mesh.devices
        if n1 % width == 0 or width % n1 == 0:
            return 1
        rows = [{first // width, (first + n1 - 1) // width} for first in range(0, self.mesh.n_devices, n1)]
        return max(sum(node in ends for ends in rows if len(ends) > 1) for node in range(self.mesh.hosts))

    @property
    def _adapters(self) -> int:
        """Network adapters of the mesh's devices in one node."""
        return self.mesh.cluster.adapters(self.mesh.devices, self.mesh.first_device)

    def seconds(self, collective: Collective, n_bytes: float, axes: tuple[int, ...]) -> float:
        """Seconds of a collective along these axes, all groups at once; see `COLLECTIVES` for what `n_bytes` counts."""
        if n_bytes <= 0 or self.size(axes) == 1:
            return 0.0
        if self.tables is not None and self.inside(axes):
            measured = self.tables.seconds(collective, n_bytes, self.size(axes))
            if measured is not None:
                return measured
        link = self._scattered(axes) if collective == "all_to_all" else self.link(axes)
        return COLLECTIVES[collective](n_bytes, link)

    def _scattered(self, axes: tuple[int, ...]) -> AxisLink:
        """The link of an all-to-all: no ring, every device sends its own pieces to each other node.

        All devices of a node do at once, through its adapters; a ring would cross them once for all of them.
        """
        link, width, n1 = self.link(axes), self.mesh.devices, self.shape[1]
        if link.size == 1 or self.inside(axes):
            return link
        near = max(1, width // n1) if set(axes) == {0} else min(width, link.size - 1)  # of a group, in one node
        far = self._adapters * self.mesh.cluster.spec.inter_node.bandwidth_bytes_per_s
        rate = far / (width * (link.size - near))
        return AxisLink(link.size, min(link.bandwidth_bytes_per_s, rate * (link.size - 1)), link.latency_s)
