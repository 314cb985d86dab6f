"""`Mesh` and `LogicalMesh`: a submesh of a cluster, its two-dimensional views, and what collectives cost on them.

Begin with `LogicalMesh.seconds`. `COLLECTIVES` holds the α–β formulas, `AxisLink` the α and β of one mesh axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from ..errors import InputError
from .cluster import Cluster, JoinedClusters
from .topology import Level

if TYPE_CHECKING:
    from .collective_tables import CollectiveTables

__all__ = ["BUCKET_BYTES", "COLLECTIVES", "AxisLink", "Collective", "LogicalMesh", "Mesh"]

Collective = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]
BUCKET_BYTES = 25 * 2**20
"""Of tensors that travel together: the bucket of torch's DistributedDataParallel (`bucket_cap_mb`)."""
_NOTHING = 1e-9
"""Bytes of a message whose time is, in effect, only its fixed cost; one of no bytes costs nothing."""


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
    joined : JoinedClusters, optional
        Where the cluster is one of several: all of them, by whose numbers devices then go.
    part : int
        Number of the cluster among these.

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
    joined: JoinedClusters | None = None
    part: int = 0

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
        """Devices in row-major order, as the cluster, or the joined clusters, number them."""
        width = self.cluster.devices_per_node
        first = 0 if self.joined is None else self.joined.first_device(self.part)
        return tuple(
            first + host * width + device
            for host in range(self.first_host, self.first_host + self.hosts)
            for device in range(self.first_device, self.first_device + self.devices)
        )

    @property
    def network(self) -> Cluster | JoinedClusters:
        """What says how two devices are linked, by the numbers of `device_ids`."""
        return self.cluster if self.joined is None else self.joined

    @property
    def logical_shapes(self) -> tuple[tuple[int, int], ...]:
        """All two-dimensional views: (n0, n1) with n0 · n1 devices."""
        n = self.n_devices
        return tuple((a, n // a) for a in range(1, n + 1) if n % a == 0)

    def view(self, shape: tuple[int, int], tables: CollectiveTables | None = None) -> LogicalMesh:
        """A logical mesh over these devices, with measured collectives where there are tables, the cluster's or these.

        Raises
        ------
        InputError
            If the shape is not two-dimensional or has another number of devices.
        """
        return LogicalMesh(self, shape, self.cluster.collectives if tables is None else tables)


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
        adapters once: all of the mesh's, in equal shares. So do those that leave a group of a level of the cluster, in
        equal shares of its uplinks.
        """
        spec, size = self.mesh.cluster.spec, self.size(axes)
        near, far = spec.intra_node, spec.inter_node
        if size == 1 or self.inside(axes):
            return AxisLink(size, near.bandwidth_bytes_per_s, near.latency_s)
        shares = self._shares(axes)
        said = [x.latency_s for x in self._left(axes) if x.latency_s is not None]
        return AxisLink(size, min(near.bandwidth_bytes_per_s, *shares), said[-1] if said else far.latency_s)

    def _shares(self, axes: tuple[int, ...], scattered: bool = False) -> list[float]:
        """What a ring along these axes has of a node's adapters, and of a group's uplinks of each level, bytes/s.

        Infinite where no ring leaves a node or group. Of an all-to-all (`scattered`), what each device has.
        """
        levels = self.mesh.cluster.levels
        if self.size(axes) == 1 or self.inside(axes):
            return [math.inf] * (1 + len(levels))
        far, left = self._adapters * self.mesh.cluster.spec.inter_node.bandwidth_bytes_per_s, self._left(axes)

        def share(bytes_per_s: float, nodes: int) -> float:
            if scattered:
                return self._piece_rate(axes, nodes, bytes_per_s)
            return bytes_per_s / self._rings(axes, nodes)

        return [share(far, 1), *(share(self._uplink(x), x.nodes) if x in left else math.inf for x in levels)]

    def _rings(self, axes: tuple[int, ...], nodes: int) -> int:
        """Rings along these axes that leave a group of so many nodes, at most."""
        n1, width = self.shape[1], min(nodes, self.mesh.hosts) * self.mesh.devices
        if set(axes) != {1}:
            return min(n1, width) if set(axes) == {0} else 1
        # Rows: one where they fill groups, two where one ends and the next begins in it.
        offset, width = self.mesh.first_host % nodes * self.mesh.devices, nodes * self.mesh.devices
        if not offset and (n1 % width == 0 or width % n1 == 0):
            return 1
        last = self.mesh.n_devices + offset
        rows = [{first // width, (first + n1 - 1) // width} for first in range(offset, last, n1)]
        return max(sum(group in ends for ends in rows if len(ends) > 1) for group in range(-(-last // width)))

    def _left(self, axes: tuple[int, ...]) -> tuple[Level, ...]:
        """Levels of the cluster whose groups some ring along these axes leaves."""
        n1, n = self.shape[1], self.mesh.n_devices
        ends = [(0, n - 1)]  # first and last device of rings; of all columns those at the edges
        if set(axes) == {0}:
            ends = [(0, n - n1), (n1 - 1, n - 1)]
        elif set(axes) == {1}:
            ends = [(first, first + n1 - 1) for first in range(0, n, n1)]
        hosts = [[self.mesh.first_host + k // self.mesh.devices for k in pair] for pair in ends]
        return tuple(x for x in self.mesh.cluster.levels if any(a // x.nodes != b // x.nodes for a, b in hosts))

    def _uplink(self, level: Level) -> float:
        """Bytes per second of a group's uplinks; of those of the mesh's own rails, where there are rails."""
        cluster = self.mesh.cluster
        mine = self._adapters / cluster.adapters(cluster.devices_per_node) if level.rails else 1.0
        return cluster.uplink_bytes_per_s(level) * mine

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

    def shared_seconds(self, collective: Collective, n_bytes: float, axes: tuple[int, ...]) -> float:
        """Seconds of a tensor that travels with others, as gradients do: a collective's, without its fixed cost.

        Where collectives were measured, they are the tensor's part of a whole bucket's: at small sizes a curve is no
        line, and its fixed cost is mostly noise.
        """
        if self.tables is not None and self.inside(axes) and n_bytes > 0 and self.size(axes) > 1:
            bucket = self.tables.seconds(collective, BUCKET_BYTES, self.size(axes))
            if bucket is not None:
                return bucket * n_bytes / BUCKET_BYTES
        return max(0.0, self.seconds(collective, n_bytes, axes) - self.seconds(collective, _NOTHING, axes))

    def busy(self, collective: Collective, n_bytes: float, axes: tuple[int, ...]) -> tuple[float, ...]:
        """Seconds for which a collective keeps links busy, without latencies: devices' ports, nodes' adapters, the
        uplinks of each level of the cluster."""
        size, scattered = self.size(axes), collective == "all_to_all"
        if n_bytes <= 0 or size == 1:
            return (0.0,) * (2 + len(self.mesh.cluster.levels))
        limits = [self.mesh.cluster.spec.intra_node.bandwidth_bytes_per_s, *self._shares(axes, scattered)]
        seconds = [COLLECTIVES[collective](n_bytes, AxisLink(size, limit, 0.0)) for limit in limits]
        if self.tables is not None and self.inside(axes):
            seconds[0] = min(seconds[0], self.seconds(collective, n_bytes, axes))
        return tuple(seconds)

    def _scattered(self, axes: tuple[int, ...]) -> AxisLink:
        """The link of an all-to-all: no ring, every device sends its own pieces to each other node.

        All devices of a node do at once, through its adapters; a ring would cross them once for all of them. So it is
        with the uplinks of a group. On rails, pieces change rails inside their node first, as NCCL's do.
        """
        link = self.link(axes)
        rate = min(link.bandwidth_bytes_per_s, *self._shares(axes, scattered=True))
        return AxisLink(link.size, rate, link.latency_s)

    def _piece_rate(self, axes: tuple[int, ...], nodes: int, bytes_per_s: float) -> float:
        """What a device sends at while all devices of a group of nodes send what leaves it, at so much together."""
        width, size = min(nodes, self.mesh.hosts) * self.mesh.devices, self.size(axes)
        near = max(1, width // self.shape[1]) if set(axes) == {0} else width  # of a ring, in the group
        rate = bytes_per_s / (width * (size - min(near, size - 1)))
        return rate * (size - 1)
