"""What the figures assume of runtime and machine, and the cluster and the costs that follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...errors import InputError
from ...profiles.devices import DEVICES
from ...profiles.graph import CostModel, Operator, OperatorTimes, roofline
from ...profiles.hardware import DeviceSpec, LinkSpec
from ...simulator.cluster import Cluster

if TYPE_CHECKING:
    from ...planners.stages.footprint import Footprint

__all__ = ["GPUS_PER_NODE", "SUMMIT", "USABLE_GIB", "HostTime", "Setting", "cluster_of"]

_V100 = DEVICES["v100-16gb"]
SUMMIT = DeviceSpec(
    "v100-summit",
    _V100.memory_bytes,
    15 * 2**30,
    _V100.peak_flops,
    _V100.memory_bandwidth_bytes_per_s,
    LinkSpec(50e9, _V100.intra_node.latency_s),
    LinkSpec(12.5e9, _V100.inter_node.latency_s),
    "Summit: V100 SXM2 16 GB, two NVLinks of 25 GB/s between two of a socket, EDR InfiniBand of 100 Gb/s per node",
)
"""§3.7: four V100s of each node, NVLink inside, one EDR adapter for all four."""
GPUS_PER_NODE = 4  # §3.7
USABLE_GIB = 13.5
"""Nine tenths of the 15 GiB that CUDA leaves of a V100 of 16 GB; the papers print no number."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What the chapter leaves open of its runtime; the defaults are what the figures have.

    Parameters
    ----------
    usable_gib : float
        Memory of a GPU that a plan may fill, GiB, > 0.
    footprint : {"flexflow", "saved"}
        What a device holds of a sample in flight (`planners.stages.footprint`): the chapter's runtime is built on
        FlexFlow (§3.7).
    host_s : float
        Seconds that the runtime adds to each kernel's pass of an operator, >= 0: launching a task, say.
    network : float
        Bandwidth between nodes, as a multiple of one EDR adapter's, > 0.
    one_device : bool
        Whether every stage has one device: no data parallelism.
    """

    usable_gib: float = USABLE_GIB
    footprint: Footprint = "flexflow"
    host_s: float = 0.0
    network: float = 1.0
    one_device: bool = False

    def __post_init__(self) -> None:
        if not (self.usable_gib > 0 and self.network > 0 and self.host_s >= 0):
            raise InputError(f"setting: expected positive memory and bandwidth, host_s >= 0 (got {self})")

    def cluster(self, gpus: int) -> Cluster:
        """Nodes of Summit, four GPUs of each, with the memory and the network of this setting."""
        link = replace(SUMMIT.inter_node, bandwidth_bytes_per_s=SUMMIT.inter_node.bandwidth_bytes_per_s * self.network)
        room = round(self.usable_gib * 2**30)  # all of it may be filled (`systems.OPTIONS`)
        spec = replace(SUMMIT, memory_bytes=room, usable_memory_bytes=room, inter_node=link)
        return Cluster.of(gpus, spec, GPUS_PER_NODE)

    def costs(self, spec: DeviceSpec) -> CostModel:
        """Seconds of operators."""
        return HostTime(roofline(spec), self.host_s) if self.host_s else roofline(spec)


def cluster_of(gpus: int) -> Cluster:
    """Nodes of Summit, four GPUs of each."""
    return Setting().cluster(gpus)


@dataclass(frozen=True, slots=True)
class HostTime:
    """A cost model with the same seconds on top of every operator's pass that has a kernel of its own.

    What FlexFlow runs as part of another operator (a bias, an activation after a product) and views add nothing.
    """

    base: CostModel
    host_s: float

    @property
    def source(self) -> str:
        """What the seconds rest on."""
        return f"{self.base.source}; {self.host_s:g} s a pass for the host"

    def times(self, op: Operator, parts: Mapping[str, int]) -> OperatorTimes:
        """Seconds on one device."""
        found = self.base.times(op, parts)
        if op.kind == "view" or op.attributes.get("fn") in ("relu", "gelu") or op.name.endswith(".add"):
            return found
        back = found.backward_input_s + self.host_s if found.backward_s else found.backward_input_s
        return OperatorTimes(found.forward_s + self.host_s, back, found.backward_weight_s)
