"""What the figures assume of runtime and machine, and the cluster and the costs that follow from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...errors import InputError
from ...profiles.devices import DEVICES
from ...profiles.graph import CostModel, roofline
from ...profiles.hardware import DeviceSpec, LinkSpec
from ...simulator.cluster import Cluster
from .slower import HostTime, SmallProducts, level_by_level

if TYPE_CHECKING:
    from ...planners.stages.footprint import Footprint
    from ...profiles.graph import Graph

__all__ = ["GPUS_PER_NODE", "SUMMIT", "USABLE_GIB", "Setting", "cluster_of"]

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
        Seconds that the runtime adds to each kernel's pass of an operator, >= 0: launching a task, say. The chapter
        says that its runtime's analysis of tasks is slow, and the slower the more GPUs there are (footnote 8).
    half_rows : float
        Rows at which a product with weights would have half of the speed that the data sheet and tiles give it, >= 0.
    network : float
        Bandwidth between nodes, as a multiple of one EDR adapter's, > 0.
    one_device : bool
        Whether every stage has one device: no data parallelism.
    by_level : bool
        Whether the line of operators that PipeDream cuts has the first layers of all branches, then their second ones,
        and so on. The chapter's has branch after branch (Fig. 3.2, §3.7.4).
    ties : int
        How many numbers of stages PipeDream and Piper try among pipelines of one bottleneck, for each microbatch size:
        the simulated iteration decides, as it does for GraphPipe's plans (32 in all). The chapter does not say which of
        them its baselines take. 1: the fewest stages, which hold the fewest samples in flight.
    """

    usable_gib: float = USABLE_GIB
    footprint: Footprint = "flexflow"
    host_s: float = 0.0
    half_rows: float = 0.0
    network: float = 1.0
    one_device: bool = False
    by_level: bool = False
    ties: int = 4

    def __post_init__(self) -> None:
        if not (self.usable_gib > 0 and self.network > 0 and self.host_s >= 0 and self.half_rows >= 0):
            raise InputError(f"setting: expected positive memory and bandwidth, host_s, half_rows >= 0 (got {self})")

    def cluster(self, gpus: int) -> Cluster:
        """Nodes of Summit, four GPUs of each, with the memory and the network of this setting."""
        link = replace(SUMMIT.inter_node, bandwidth_bytes_per_s=SUMMIT.inter_node.bandwidth_bytes_per_s * self.network)
        room = round(self.usable_gib * 2**30)  # all of it may be filled (`systems.OPTIONS`)
        spec = replace(SUMMIT, memory_bytes=room, usable_memory_bytes=room, inter_node=link)
        return Cluster.of(gpus, spec, GPUS_PER_NODE)

    def costs(self, spec: DeviceSpec) -> CostModel:
        """Seconds of operators."""
        found: CostModel = roofline(spec)
        found = SmallProducts(found, self.half_rows) if self.half_rows else found
        return HostTime(found, self.host_s) if self.host_s else found

    def ordered(self, graph: Graph) -> Graph:
        """The graph in the order of operators that PipeDream cuts."""
        return level_by_level(graph) if self.by_level else graph


def cluster_of(gpus: int) -> Cluster:
    """Nodes of Summit, four GPUs of each."""
    return Setting().cluster(gpus)
