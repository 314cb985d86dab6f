"""Alpa and what it is compared with, on the models, batches and clusters of its evaluation (§3.8.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from ...errors import InfeasibleError
from ...profiles import device
from ...profiles.graph import CostModel, Graph
from ...simulator.cluster import Cluster
from ..style import BLUE, GREEN, ORANGE, VERMILLION
from .convolutions import Shares, convolution_costs
from .deepspeed import DeepSpeed

if TYPE_CHECKING:
    from ...planners.alpa.inter.pricing.intra_pricer import IntraPricer
    from ...simulator.training.plan.file import TrainingPlan

__all__ = [
    "AS_SAID",
    "FAMILIES",
    "OPTIONS",
    "SYSTEMS",
    "TITLES",
    "Assumed",
    "Family",
    "cluster_of",
    "graph_of",
    "options_of",
    "plan_of",
]

DEVICE = "v100-16gb"
"""p3.16xlarge: 8 of them with NVLink, 25 Gb/s between nodes."""
NETWORK_GBPS = 25.0
"""Between nodes (§8)."""
OPTIONS: Mapping[str, Any] = MappingProxyType({"recompute": "full"})
"""Every system recomputes each layer's operators in the backward pass, as in the authors' benchmark."""


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of model.

    Parameters
    ----------
    name, title : str
        Its name in tables and in pictures.
    models : mapping
        GPUs -> name in the zoo (Tables 6–8).
    batch : int
        Samples of an iteration (Table 4).
    microbatches : mapping
        GPUs -> numbers of microbatches that pipelines choose from: around those of the authors' benchmark.
    """

    name: str
    title: str
    models: Mapping[int, str]
    batch: int
    microbatches: Mapping[int, tuple[int, ...]]

    def counts(self, system: str, gpus: int) -> tuple[int, ...]:
        """Numbers of microbatches that a system chooses from.

        Without a pipeline: few, of 1 to 4 samples a GPU. With one of as many stages as GPUs: many, down to 1 sample (4
        images).
        """
        if system == "Inter-op only" and gpus > 4:
            return tuple(self.batch // n for n in ((32, 16, 8, 4) if self.name == "resnet" else (8, 4, 2, 1)))
        if system not in ("DeepSpeed", "Intra-op only") or gpus < 8 or self.name == "resnet":
            return self.microbatches[gpus]
        few = tuple(self.batch // (gpus * each) for each in (1, 2, 4))
        return few if system == "DeepSpeed" else (*few, *(n for n in self.microbatches[gpus] if n not in few))


def _sizes(prefix: str, *sizes: str) -> dict[int, str]:
    return {n: f"{prefix}-{size}" for n, size in zip(_GPUS, sizes, strict=True)}


_GPUS: tuple[int, ...] = (1, 4, 8, 16, 32, 64)
_LANGUAGE: dict[int, tuple[int, ...]] = dict(
    zip(_GPUS, ((32, 64), (16, 32, 64), (16, 32, 64), (32, 64, 128), (64, 128, 256), (128, 256)), strict=True)
)
_IMAGES: dict[int, tuple[int, ...]] = {
    1: (32,),
    4: (24, 32, 48),
    8: (24, 32, 48),
    16: (24, 32, 48),
    32: (32, 48),
    64: (48,),
}

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "gpt": Family(
            "gpt", "GPT-3", _sizes("gpt3", "350m", "1.3b", "2.6b", "6.7b", "15b", "39b"), 1024, _LANGUAGE
        ),
        "moe": Family(
            "moe", "GShard MoE", _sizes("gshard-moe", "380m", "1.3b", "2.4b", "10b", "27b", "70b"), 1024,
            _LANGUAGE,
        ),
        "resnet": Family(
            "resnet", "Wide-ResNet", _sizes("wide-resnet", "250m", "1b", "2b", "4b", "6.8b", "13b"), 1536,
            _IMAGES,
        ),
    }
)  # fmt: skip
TITLES = {name: family.title for name, family in FAMILIES.items()}

SYSTEMS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "gpt": {"Megatron-LM": ORANGE, "Inter-op only": GREEN, "Intra-op only": VERMILLION, "Alpa": BLUE},
        "moe": {"DeepSpeed": ORANGE, "Inter-op only": GREEN, "Intra-op only": VERMILLION, "Alpa": BLUE},
        "resnet": {"PP-DP": ORANGE, "Inter-op only": GREEN, "Intra-op only": VERMILLION, "Alpa": BLUE},
    }
)
"""Family -> system -> colour, in the order of the bars."""


def cluster_of(gpus: int, network_gbps: float = NETWORK_GBPS, nvlink: float = 1.0) -> Cluster:
    """The testbed's first GPUs; where it is swept, with another rate between nodes or a share of that within them."""
    if (network_gbps, nvlink) == (NETWORK_GBPS, 1.0):
        return Cluster.of(gpus, DEVICE)
    spec = device(DEVICE)
    between = replace(spec.inter_node, bandwidth_bytes_per_s=network_gbps * 1e9 / 8)
    within = replace(spec.intra_node, bandwidth_bytes_per_s=nvlink * spec.intra_node.bandwidth_bytes_per_s)
    name = f"{DEVICE}, {network_gbps:g} Gb/s, {nvlink:g} of NVLink"
    return Cluster.of(gpus, replace(spec, name=name, inter_node=between, intra_node=within))


def graph_of(family: str, gpus: int, batch: int) -> Graph:
    """The model for so many GPUs, at a microbatch of `batch` samples."""
    from ...profiles.graph.zoo import zoo_graph

    return zoo_graph(FAMILIES[family].models[gpus], batch)


@dataclass(frozen=True, slots=True)
class Assumed:
    """What the figures assume, for sweeps.

    Parameters
    ----------
    shares : Shares or None
        What float32 convolutions (Wide-ResNet's) reach of the peak; None: what the roofline says.
    streams : float or None
        Share of the memory bandwidth of operators that only move bytes; None: the roofline's.
    memory : float
        Share of a GPU's memory that plans may fill.
    recompute : {"full", "none"}
        Whether each layer's operators are computed again in the backward pass.
    layers : int or None
        Clusters of operators that stages consist of; None: as `options_of` and the planner have it.
    network_gbps : float
        Between nodes.
    nvlink : float
        Share of NVLink's rate that is reached within nodes.
    deepspeed : DeepSpeed
        What the baseline for MoE does.
    """

    shares: Shares | None = field(default_factory=Shares)
    streams: float | None = None
    memory: float = 0.9
    recompute: str = "full"
    layers: int | None = None
    network_gbps: float = NETWORK_GBPS
    nvlink: float = 1.0
    deepspeed: DeepSpeed = field(default_factory=DeepSpeed)

    def cluster(self, gpus: int) -> Cluster:
        """The testbed's first GPUs."""
        return cluster_of(gpus, self.network_gbps, self.nvlink)

    def costs(self, family: str, cluster: Cluster) -> CostModel:
        """What operators take: of Wide-ResNet, with measured convolutions."""
        return convolution_costs(cluster.spec, self.shares if family == "resnet" else None, self.streams)


AS_SAID = Assumed()
"""What the figures assume where nothing is swept."""


def plan_of(
    family: str, system: str, gpus: int, assumed: Assumed = AS_SAID, counts: tuple[int, ...] = ()
) -> TrainingPlan:
    """The plan of one system with the number of microbatches that it is fastest with.

    Parameters
    ----------
    family, system : str
        The model's family, and who plans.
    gpus : int
        Of the testbed.
    assumed : Assumed
        What is assumed.
    counts : tuple of int
        Numbers of microbatches to choose from; those of the family if left out.

    Raises
    ------
    InfeasibleError
        If it fits the memory with none of them.
    """
    plan = _best(family, system, gpus, assumed, counts)
    if isinstance(plan, InfeasibleError):
        raise plan
    return plan


@cache
def _best(
    family: str, system: str, gpus: int, assumed: Assumed, counts: tuple[int, ...]
) -> TrainingPlan | InfeasibleError:
    """The plan itself, cached: figures of one process share it."""
    from ...planners.alpa.inter.pricing.intra_pricer import least_device_seconds

    chosen, cluster = FAMILIES[family], assumed.cluster(gpus)
    costs = assumed.costs(family, cluster)
    best: TrainingPlan | None = None
    why = InfeasibleError(f"{system}: no number of microbatches to choose from")
    for count in counts or chosen.counts(system, gpus):
        graph = graph_of(family, gpus, chosen.batch // count)
        least = least_device_seconds(graph, costs) * count / gpus  # of any plan: small microbatches fill GPUs worse
        if best is not None and least >= best.predicted["seconds"]:
            continue
        try:
            plan = _planned(family, system, gpus, graph, count, assumed)
        except InfeasibleError as error:
            why = error
            continue
        if best is None or plan.predicted["seconds"] < best.predicted["seconds"]:
            best = plan
    return best or why


_BASELINES = {
    "Megatron-LM": "megatron",
    "PP-DP": "pp-dp",
    "Intra-op only": "intra-only",
    "Inter-op only": "inter-only",
    "Equal operator": "equal-operator",
    "Equal layer": "equal-layer",
}


def options_of(family: str, system: str, gpus: int, assumed: Assumed = AS_SAID) -> dict[str, Any]:
    """What `AlpaOptions` every system is planned with.

    MoE models are trained with Adafactor and clustered into a layer for every two blocks, one of them with experts, as
    in the authors' benchmark; stages of one device need more layers. A parameter takes 2 + 2 bytes, its float32 copy 4,
    and a value for every row and every column.
    """
    options = {**OPTIONS, "recompute": assumed.recompute, "memory_fraction": assumed.memory}
    options |= {} if assumed.layers is None else {"n_layers": assumed.layers}
    if family != "moe":
        return options
    clusters = {"n_layers": 16 if gpus == 64 else 8} if system in ("Alpa", "Intra-op only") else {}
    return {**clusters, **options, "optimizer": "adafactor"}


_SHARED: Mapping[str, Literal["any", "equal_layer"]] = MappingProxyType({"Alpa": "any", "Equal layer": "equal_layer"})
"""Systems that price the same runs of layers, and which stages each may form."""


@lru_cache(maxsize=6)  # the numbers of microbatches that one point chooses from
def _prices(family: str, gpus: int, count: int, assumed: Assumed) -> tuple[Graph, IntraPricer]:
    """A graph, and prices of its stages that are remembered: for systems that differ only in which stages they form."""
    from ...planners.alpa import AlpaOptions
    from .prices import Remembering

    cluster = assumed.cluster(gpus)
    options = AlpaOptions(**options_of(family, "Alpa", gpus, assumed))
    graph = graph_of(family, gpus, FAMILIES[family].batch // count)
    return graph, Remembering.of(cluster, options, assumed.costs(family, cluster))


def _planned(family: str, system: str, gpus: int, graph: Graph, count: int, assumed: Assumed) -> TrainingPlan:
    from ...planners.alpa import AlpaOptions, plan
    from ...planners.alpa.baselines import BASELINES

    cluster, batch = assumed.cluster(gpus), FAMILIES[family].batch
    options = AlpaOptions(**options_of(family, system, gpus, assumed))
    costs = assumed.costs(family, cluster)
    if system in _SHARED:
        shared, pricer = _prices(family, gpus, count, assumed)
        return plan(
            shared, cluster, global_batch=batch, microbatches=count, options=replace(options, stages=_SHARED[system]),
            pricer=pricer, planner="alpa" if system == "Alpa" else f"alpa-{_BASELINES[system]}",
        )  # fmt: skip
    if system == "DeepSpeed":
        return assumed.deepspeed.plan(graph, cluster, batch, count, options, costs)
    return BASELINES[_BASELINES[system]](
        graph, cluster, global_batch=batch, microbatches=count, options=options, costs=costs
    )
