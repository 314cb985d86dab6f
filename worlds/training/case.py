"""What a case of the training world says: cluster, model, batch, how fast it must be, planner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ...profiles.hardware import device as device_by_name
from ...reprs import Shown
from ..file.units import parse_bandwidth, parse_bytes, parse_seconds
from ..limits import (
    MAX_BATCH,
    MAX_BYTES,
    MAX_BYTES_PER_S,
    MAX_DEVICES,
    MAX_FACTOR,
    MAX_LAYERS,
    MAX_PRICE,
    MAX_SAMPLES,
    MAX_SECONDS,
    MAX_TOKENS,
    MAX_WIDTH,
    MIN_BYTES,
    MIN_FACTOR,
)
from ..world import CIRCUMSTANCE, Case

__all__ = [
    "CheckpointCase", "FailuresCase", "ShapeCase",
    "TrainingCase", "TrainingClusterCase", "TrainingPlannerCase", "TrainingWorkloadCase",
]  # fmt: skip

Devices = Annotated[int, Field(gt=0, le=MAX_DEVICES)]
Samples = Annotated[int, Field(gt=0, le=MAX_BATCH)]
Bytes = Annotated[int, BeforeValidator(parse_bytes), Field(ge=MIN_BYTES, le=MAX_BYTES)]
Bandwidth = Annotated[float, BeforeValidator(parse_bandwidth), Field(ge=1, le=MAX_BYTES_PER_S)]
Seconds = Annotated[float, BeforeValidator(parse_seconds), Field(gt=0, le=MAX_SECONDS)]
Factor = Annotated[float, Field(ge=MIN_FACTOR, le=MAX_FACTOR)]
Layers = Annotated[int, Field(gt=0, le=MAX_LAYERS)]
Width = Annotated[int, Field(gt=0, le=MAX_WIDTH)]


class _Part(Shown, BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class TrainingClusterCase(_Part):
    """The devices. A number that fills no whole nodes stands in the largest equal nodes: 12 of 8 are two of 6."""

    devices: Devices = Field(description="number of devices; a plan uses all of them")
    devices_per_node: Devices = Field(default=8, description="devices in a node, at most")
    device: str = Field(default="v100-16gb", description="device type")
    memory: Bytes | None = Field(
        default=None, description="memory of a device in bytes, such as 32 GiB; else the type's"
    )
    intra_node_bandwidth: Bandwidth | None = Field(
        default=None,
        description="link between two devices of a node, bytes per second, such as 300 GB/s; else the type's",
    )
    inter_node_bandwidth: Bandwidth | None = Field(
        default=None, description="network adapter of a node, bytes per second, such as 200 Gbit/s; else the type's"
    )
    also: str = Field(
        default="",
        description="further clusters, of other devices, that a plan uses too: devices x type, such as 4xv100-16gb, or "
        "nodes x devices x type, such as 2x8xv100-16gb; several with commas; joined by the slower one's network; "
        "planner alpa",
    )
    link_scale: Annotated[Factor, CIRCUMSTANCE] = Field(
        default=1.0, description="factor that multiplies the bandwidth of all links"
    )
    rack_nodes: Devices | None = Field(
        default=None, description="number of nodes that a switch joins; else all of them reach each other at full rate"
    )
    oversubscription: Annotated[float, Field(ge=1, le=MAX_FACTOR)] = Field(
        default=1.0, description="ratio of what a rack's network adapters send to what its uplinks carry"
    )
    rails: bool = Field(
        default=False, description="whether the k-th adapters of a rack's nodes have a switch of their own"
    )
    shared_links: bool = Field(
        default=False, description="whether collectives and messages on one link slow each other"
    )
    price_per_hour: Annotated[float | None, CIRCUMSTANCE] = Field(
        default=None, ge=0, le=MAX_PRICE, description="price of one device-hour; else the type's"
    )

    @model_validator(mode="after")
    def _racks(self) -> TrainingClusterCase:
        if self.rack_nodes is None and (self.rails or self.oversubscription > 1):
            said = "rails" if self.rails else "oversubscription"
            raise ValueError(f"{said}: of which racks? Give rack_nodes, too")
        return self

    @property
    def device_memory(self) -> int:
        """Memory of a device, bytes."""
        return device_by_name(self.device).memory_bytes if self.memory is None else self.memory


class ShapeCase(_Part):
    """Sizes of the model that differ from those of its name."""

    layers: Layers | None = Field(default=None, description="number of layers")
    hidden: Width | None = Field(default=None, description="hidden size, number of features")
    heads: Width | None = Field(default=None, description="number of attention heads")
    kv_heads: Width | None = Field(default=None, description="number of heads of keys and values")
    ffn: Width | None = Field(default=None, description="inner size of the feed-forward layers, number of features")
    vocab: Annotated[int, Field(gt=0, le=10 * MAX_WIDTH)] | None = Field(
        default=None, description="vocabulary, number of tokens"
    )
    experts: Layers | None = Field(default=None, description="number of experts of a layer that has some")

    @property
    def said(self) -> dict[str, int]:
        """The sizes that are given."""
        return self.model_dump(exclude_none=True)


class TrainingWorkloadCase(_Part):
    """What an iteration trains on, how long the run is, and how fast it must be."""

    slo_words: ClassVar[str] = "× the limits that are given"

    global_batch: Annotated[Samples, CIRCUMSTANCE] = Field(description="samples of one iteration")
    microbatches: Samples | None = Field(
        default=None, description="number of microbatches of an iteration; else the planner chooses"
    )
    sequence: Annotated[Annotated[int, Field(gt=0, le=MAX_TOKENS)] | None, CIRCUMSTANCE] = Field(
        default=None, description="tokens of one sample; else the model's"
    )
    slo: Annotated[Seconds | None, CIRCUMSTANCE] = Field(
        default=None, description="limit of one iteration, seconds; what attainment asks for"
    )
    run_samples: Annotated[Annotated[int, Field(gt=0, le=MAX_SAMPLES)] | None, CIRCUMSTANCE] = Field(
        default=None, description="length of the whole run, samples"
    )
    deadline: Annotated[Seconds | None, CIRCUMSTANCE] = Field(
        default=None, description="limit of the whole run, seconds or such as 30 d; needs run_samples"
    )
    slo_scale: Annotated[Factor, CIRCUMSTANCE] = Field(
        default=1.0, description="factor that multiplies slo and deadline"
    )

    @model_validator(mode="after")
    def _divides(self) -> TrainingWorkloadCase:
        if self.deadline is not None and self.run_samples is None:
            raise ValueError("deadline: how long is the run? Give run_samples, too")
        count, batch = self.microbatches, self.global_batch
        if count is not None and batch % count:
            near = min((m for m in range(1, batch + 1) if batch % m == 0), key=lambda m: abs(m - count))
            raise ValueError(
                f"microbatches: {count} do not divide the global batch of {batch}; the nearest that do: {near}"
            )
        return self


class FailuresCase(_Part):
    """What fails during a long run, how it comes back, and who stands by. Without mtbf and node_mtbf nothing fails."""

    mtbf: Annotated[Seconds | None, CIRCUMSTANCE] = Field(
        default=None,
        description="mean time between failures of one device, seconds or such as 50000 h; a failure takes its node",
    )
    node_mtbf: Annotated[Seconds | None, CIRCUMSTANCE] = Field(
        default=None,
        description="the same of what takes a node with all its devices (host, power, network), beside its devices",
    )
    weibull: Annotated[float, CIRCUMSTANCE] = Field(
        default=1.0, ge=0.1, le=10, description="Weibull's shape of the distribution of lives, a ratio; 1: exponential"
    )
    mttr: Annotated[Annotated[float, BeforeValidator(parse_seconds), Field(ge=0, le=MAX_SECONDS)], CIRCUMSTANCE] = (
        Field(default=0.0, description="mean repair of a node, seconds; 0: it is back at once")
    )
    spares: int = Field(
        default=0, ge=0, le=MAX_DEVICES, description="number of nodes that stand by, beside those of the cluster"
    )
    replicas: Devices = Field(default=1, description="number of data-parallel replicas, for least_replicas")
    least_replicas: Devices | None = Field(
        default=None, description="least number of replicas with which the run goes on, slower; else it waits for all"
    )
    run_time: Annotated[Seconds, CIRCUMSTANCE] = Field(
        default=30 * 86_400.0,
        description="training of the whole run without failures, seconds or such as 30 d; else that of run_samples",
    )
    draws: int = Field(default=20, ge=2, le=10_000, description="number of simulated runs, of which the interval is")

    @model_validator(mode="after")
    def _fits(self) -> FailuresCase:
        if self.least_replicas is not None and self.least_replicas > self.replicas:
            raise ValueError(
                f"least_replicas: {self.least_replicas} are more than the {self.replicas} replicas; say replicas, too"
            )
        return self

    @property
    def some(self) -> bool:
        """Whether anything fails."""
        return self.mtbf is not None or self.node_mtbf is not None


class CheckpointCase(_Part):
    """How often a run saves its state, and what that and starting from it cost."""

    interval: Literal["best"] | Seconds = Field(
        default="best", description="training between two checkpoints, seconds; best: of the highest expected goodput"
    )
    cost: Annotated[float, BeforeValidator(parse_seconds), Field(ge=0, le=MAX_SECONDS)] | None = Field(
        default=None,
        description="for how long training stands still for one, seconds; else as long as writing it takes. With "
        "bandwidth given, too, it is written in the background",
    )
    bandwidth: Bandwidth | None = Field(
        default=None,
        description="of the storage, all devices together, such as 100 GB/s: weights and optimizer states are written "
        "and loaded at it",
    )
    restart: Annotated[float, BeforeValidator(parse_seconds), Field(ge=0, le=MAX_SECONDS)] = Field(
        default=300.0,
        description="seconds from a failure, once its nodes are there, until a run loads its checkpoint: noticing it, "
        "starting processes; the default is a guess",
    )

    @model_validator(mode="after")
    def _shorter(self) -> CheckpointCase:
        if self.cost is not None and self.interval != "best" and self.cost > self.interval:
            raise ValueError(
                f"cost: a checkpoint of {self.cost:g} s is longer than its interval of {self.interval:g} s; write fewer"
            )
        return self


class TrainingPlannerCase(_Part):
    """Who plans: Alpa and what it is compared with, TeraPipe, GraphPipe, PipeDream, Piper, or a search."""

    name: str = Field(
        default="alpa",
        description="a planner's name: alpa, terapipe, graphpipe, …; search: tensor, pipeline and data parallelism of "
        "a decoder and what goes with them, all combinations",
    )
    label: str = Field(default="", description="how tables call it; by default its name")
    options: Mapping[str, Any] = Field(default_factory=dict, description="options of the planner, by their names")


class TrainingCase(Case):
    """One case of the training world: a model on a cluster, one iteration.

    Nothing is drawn but `failures`: without them replications of a case are equal.
    """

    cluster: TrainingClusterCase
    model: Annotated[str, CIRCUMSTANCE] = Field(
        default="gpt3-1.3b",
        description="a model of the zoo, a graph file, hf:CONFIG.json, or path/to/file.py:function of a torch module; "
        "of planner search a decoder's name, or sizes such as layers=96,hidden=12288,heads=96,vocab=51200,seq=2048",
    )
    shape: Annotated[ShapeCase, CIRCUMSTANCE] = ShapeCase()
    speed: Annotated[Mapping[str, Factor], CIRCUMSTANCE] = Field(
        default_factory=dict,
        description="device type -> factor by which it computes faster than its data sheet says; links stay",
    )
    kernels: Annotated[str | None, CIRCUMSTANCE] = Field(
        default=None, description="of planner search: folder of measured kernels; else rates of the data sheet"
    )
    profile: Annotated[str | None, CIRCUMSTANCE] = Field(
        default=None,
        description="file of measured operators and collectives (meshwright profile measure); else rates of the data "
        "sheet. Not of planner search",
    )
    workload: TrainingWorkloadCase
    failures: FailuresCase = FailuresCase()
    checkpoint: CheckpointCase = CheckpointCase()
    planner: TrainingPlannerCase = TrainingPlannerCase()
