"""GraphPipe and what it is compared with, on the models, batches and cluster of its evaluation (§3.7, §3.10.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ...errors import InfeasibleError, LimitError
from ...profiles.devices import DEVICES
from ...profiles.hardware import DeviceSpec, LinkSpec
from ...simulator.cluster import Cluster
from ..style import BLUE, GREEN, ORANGE

if TYPE_CHECKING:
    from ...profiles.graph import Graph
    from ...simulator.training.plan.file import TrainingPlan

__all__ = [
    "GPUS",
    "MODELS",
    "NOTES",
    "SMALL",
    "OPTIONS",
    "SUMMIT",
    "SYSTEMS",
    "Model",
    "cluster_of",
    "graph_of",
    "plan_of",
    "searched",
]

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
GPUS = (4, 8, 16, 32)  # those of Fig. 3.6 and Table 3.1

OPTIONS: Mapping[str, Any] = MappingProxyType({"optimizer": "sgd"})
"""Every system is planned with: plain SGD, as FlexFlow's programs of these models train them."""
AUTHORS_DOWNSETS = 40_000
"""Where the papers' Piper stops: its figures have no plan beyond. Ours goes on (`SequentialOptions.max_states`)."""

SYSTEMS: Mapping[str, str] = MappingProxyType({"GraphPipe": BLUE, "PipeDream": ORANGE, "Piper": GREEN})
"""System -> colour."""


@dataclass(frozen=True, slots=True)
class Model:
    """One of the three models.

    Parameters
    ----------
    name, title : str
        Its name in the zoo, and its name in pictures.
    branches : int
        Number of branches as the appendix gives it (§3.10.3); Fig. 3.6 uses it.
    branches_searched : int
        Number of branches as the section on search times gives it (§3.7.2); Table 3.1 uses it.
    batches : mapping
        Number of GPUs -> samples of an iteration (the mini-batch).
    """

    name: str
    title: str
    branches: int
    branches_searched: int
    batches: Mapping[int, int]


MODELS: Mapping[str, Model] = MappingProxyType(
    {
        name: Model(name, title, branches, searched, dict(zip(GPUS, batches, strict=True)))
        for name, title, branches, searched, batches in (
            ("mmt", "Multi-modal Transformer", 4, 2, (64, 128, 256, 512)),
            ("dlrm", "DLRM", 7, 8, (256, 512, 1024, 2048)),
            ("candle-uno", "CANDLE-Uno", 7, 8, (4096, 8192, 16384, 32768)),
        )
    }
)


def cluster_of(gpus: int) -> Cluster:
    """Nodes of Summit, four GPUs of each."""
    return Cluster.of(gpus, SUMMIT, GPUS_PER_NODE)


def graph_of(model: str, branches: int) -> Graph:
    """A model with so many branches."""
    from ...profiles.graph.zoo import zoo_graph

    return zoo_graph(f"{model}-{branches}")


def plan_of(
    system: str,
    model: str,
    branches: int,
    gpus: int,
    batch: int,
    microbatch: int | None = None,
    one_device: bool = False,
) -> TrainingPlan:
    """The plan of one system.

    Parameters
    ----------
    system : str
        One of `SYSTEMS`.
    model : str
        Name in the zoo, without its number of branches.
    branches, gpus, batch : int
        Of the model, of the cluster, samples of an iteration.
    microbatch : int, optional
        Samples of a microbatch; by default the size with the shortest simulated iteration.
    one_device : bool
        Whether every stage has one device, no data parallelism.

    Raises
    ------
    InfeasibleError
        If it finds none.
    LimitError
        If Piper has more downsets than its authors' program takes.
    """
    found = _planned(system, model, branches, gpus, batch, microbatch, one_device)
    if isinstance(found, (InfeasibleError, LimitError)):
        raise found
    return found


@cache
def _planned(
    system: str, model: str, branches: int, gpus: int, batch: int, microbatch: int | None, one_device: bool
) -> TrainingPlan | InfeasibleError | LimitError:
    """The plan itself, cached: figures of one process share it."""
    try:
        return searched(system, graph_of(model, branches), gpus, batch, microbatch, one_device)
    except (InfeasibleError, LimitError) as error:
        return error


def searched(
    system: str, graph: Graph, gpus: int, batch: int, microbatch: int | None = None, one_device: bool = False
) -> TrainingPlan:
    """Run the search now, without the cache: for those who time it."""
    options = dict(OPTIONS) if microbatch is None else {**OPTIONS, "microbatches": (microbatch,)}
    if one_device:
        options["devices"] = (1,)
    if system == "piper":
        options["max_states"] = AUTHORS_DOWNSETS
    return _planner(system)(graph, cluster_of(gpus), global_batch=batch, options=options)


def _planner(system: str) -> Callable[..., TrainingPlan]:
    from ...planners import graphpipe

    return getattr(graphpipe, {"GraphPipe": "plan", "PipeDream": "pipedream", "Piper": "piper"}[system])


SMALL = (
    "in our model a V100 is nearly as fast with small microbatches, which long pipelines therefore take at little loss;"
    " at equal sizes the gap is larger (graphpipe/fig07)"
)
"""Why gaps are smaller than the paper's."""

NOTES = (
    "V100s as the data sheet says, float32 (15.7 TFLOP/s), documented shares of the peak, nothing fitted "
    "(docs/training-costs.md): samples/s are not the paper's, ratios are what is compared",
    "Summit: 16 GB V100s, 4 a node; 50 GB/s of NVLink between two, one EDR adapter of 100 Gb/s a node; SGD",
)
