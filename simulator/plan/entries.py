"""What a plan file holds, entry by entry: the checked data that `Plan` is made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    StringConstraints,
    field_validator,
    model_serializer,
)

from ... import __version__
from ...profiles.config import ParallelConfig
from ...reprs import Shown

__all__ = [
    "ClusterEntry",
    "DeviceEntry",
    "Entry",
    "GroupEntry",
    "LevelEntry",
    "ModelEntry",
    "Name",
    "PlannerEntry",
    "Problem",
    "Seconds",
    "Serving",
    "SparseEntry",
    "StageEntry",
    "Workload",
    "contradictions",
]

Name = Annotated[str, StringConstraints(min_length=1)]
ConfigName = Annotated[str, StringConstraints(pattern=r"^op[1-9][0-9]*pp[1-9][0-9]*$")]
BatchSize = Annotated[int, Field(gt=0)]
Seconds = Annotated[float, Field(ge=0)]

Problem = tuple[tuple[str | int, ...], str]
"""Where in the file (keys and indices), and what is wrong there."""


class Entry(Shown, BaseModel):
    """Base of all entries: frozen, no unknown keys, no NaN or infinity."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    def __str__(self) -> str:
        return repr(self)  # pydantic's own text is the whole file


class SparseEntry(Entry):
    """An entry that leaves out, when it is written, what few plans say: most read as before it was there."""

    rare: ClassVar[frozenset[str]] = frozenset()

    @model_serializer(mode="wrap")
    def _said(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields, written = type(self).model_fields, cast("dict[str, Any]", handler(self))
        usual = {k: fields[k].get_default(call_default_factory=True) for k in self.rare}
        kept = {k for k in fields if k not in self.rare or getattr(self, k) != usual[k]}
        return {k: value for k, value in written.items() if k in kept}


class DeviceEntry(Entry):
    """A device type, spelt out: a plan must mean the same where the name is not known."""

    name: Name
    memory_bytes: int = Field(gt=0)
    usable_memory_bytes: int = Field(gt=0)
    peak_flops: float = Field(gt=0)
    memory_bandwidth_bytes_per_s: float = Field(gt=0)
    intra_node: tuple[float, float] = Field(description="bandwidth (bytes/s), latency (s)")
    inter_node: tuple[float, float] = Field(description="bandwidth (bytes/s), latency (s)")
    source: str = ""
    price_per_hour: float = Field(default=0.0, ge=0)
    devices_per_adapter: int = Field(
        default=0, ge=0, description="adjacent devices of a node that share a network adapter; 0: all of them"
    )
    fp8_flops: float = Field(default=0.0, ge=0, description="dense peak in 8 bits (FLOP/s); 0: no such units")
    fp4_flops: float = Field(default=0.0, ge=0, description="dense peak in 4 bits (FLOP/s); 0: no such units")
    watts: float = Field(default=0.0, ge=0, description="most power that the board takes; 0: unknown")


class LevelEntry(Entry):
    """A level of the cluster's network: groups of nodes, and their uplinks."""

    nodes: int = Field(gt=0, description="nodes of a group")
    oversubscription: float = Field(default=1.0, ge=1, description="what a group's adapters send over its uplinks'")
    latency_s: Seconds | None = Field(default=None, description="of a message that leaves a group; else adapters'")
    rails: bool = Field(default=False, description="whether each place among a node's adapters has its own switch")


class ClusterEntry(SparseEntry):
    """The cluster that was planned for."""

    rare: ClassVar[frozenset[str]] = frozenset({"levels"})

    nodes: int = Field(gt=0)
    devices_per_node: int = Field(gt=0)
    device: DeviceEntry
    levels: tuple[LevelEntry, ...] = Field(default=(), description="what joins the nodes, from the inside out")


class StageEntry(Entry):
    """What a model costs under one parallel configuration, as the planner's profile says."""

    latency_s: dict[BatchSize, tuple[Annotated[float, Field(gt=0)], ...]] = Field(
        min_length=1,
        description="batch size -> latency of each stage (s)",
        json_schema_extra={"propertyNames": {"pattern": "^[1-9][0-9]*$"}},
    )
    weight_bytes: tuple[Annotated[float, Field(ge=0)], ...] = Field(
        description="weights on each device of a stage, per stage (bytes)"
    )
    hop_s: Seconds = Field(default=0.0, description="between two stages (s)")


class ModelEntry(Entry):
    """One served model.

    ``architecture`` names a shipped model specification (`meshwright.kernels.specs`), from which the runtime builds
    the model with weights from ``seed``. ``stages`` is what exported routers predict finishes with.
    """

    name: Name
    architecture: str = ""
    seed: int = 0
    slo_s: float | None = Field(default=None, gt=0)
    stages: dict[ConfigName, StageEntry] = Field(
        default_factory=dict,
        description="parallel configuration -> cost, for the configurations that the plan uses",
        json_schema_extra={"additionalProperties": False},
    )


class GroupEntry(Entry):
    """One group: its devices stage by stage, its parallel configuration, the models that it holds."""

    op: int = Field(gt=0)
    pp: int = Field(gt=0)
    devices: tuple[int, ...]
    models: tuple[str, ...]
    partition: dict[str, tuple[int, ...]] = Field(
        default_factory=dict, description="model -> first layer of each stage, where the profile knows it"
    )

    @property
    def config(self) -> ParallelConfig:
        """The parallel configuration."""
        return ParallelConfig(self.op, self.pp)


class Workload(Entry):
    """The traffic that was planned for."""

    requests: int = Field(ge=0)
    duration_s: Seconds
    rate_per_s: dict[str, Seconds] = Field(default_factory=dict)
    source: str = ""


class PlannerEntry(Entry):
    """Who planned it."""

    name: Name
    options: dict[str, JsonValue] = Field(default_factory=dict)
    version: str = __version__
    seed: int | None = None
    seconds: Seconds = 0.0
    evaluations: int = Field(default=0, ge=0)

    @field_validator("options")
    @classmethod
    def _finite(cls, options: dict[str, JsonValue]) -> dict[str, JsonValue]:
        bad = [key for key, value in options.items() if not _is_finite(value)]
        if bad:
            raise ValueError(f"NaN or infinity in option {bad[0]!r}")
        return options


class Serving(Entry):
    """How the controller serves it."""

    dispatch: Literal["shortest_queue", "earliest_finish", "earliest_free"] = "shortest_queue"
    admission: bool = True
    overhead_s: Seconds = 0.0
    max_batch: int = Field(default=1, gt=0)


def _is_finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(_is_finite, cast("dict[str, Any]", value).values()))
    return all(map(_is_finite, cast("list[Any]", value))) if isinstance(value, list) else True


def contradictions(
    cluster: ClusterEntry | None, models: Sequence[ModelEntry | None], groups: Sequence[GroupEntry | None]
) -> list[Problem]:
    """What is wrong between entries that are each right by themselves.

    Entries that could not be read are None, and what needs them is not checked.
    """
    problems: list[Problem] = []
    names: dict[str, int] = {}
    for m, model in enumerate(models):
        if model is None:
            continue
        if model.name in names:
            problems.append((("models", m, "name"), f"{model.name!r} is models[{names[model.name]}] already"))
        names.setdefault(model.name, m)
        problems += [((("models", m, *where)), what) for where, what in _stage_problems(model)]
    known = None if None in models else names
    owner: dict[int, int] = {}
    for g, group in enumerate(groups):
        if group is not None:
            found = [*_device_problems(group, g, cluster, owner), *_model_problems(group, known)]
            problems += [(("groups", g, *where), what) for where, what in found]
    return problems


def _stage_problems(model: ModelEntry) -> list[Problem]:
    found: list[Problem] = []
    for name, stage in model.stages.items():
        pp = ParallelConfig.parse(name).pp
        rows = {("latency_s", str(b)): row for b, row in stage.latency_s.items()} | {
            ("weight_bytes",): stage.weight_bytes
        }
        found += [
            (("stages", name, *where), f"expected {pp} stages (got {len(row)})")
            for where, row in rows.items()
            if len(row) != pp
        ]
    return found


def _device_problems(
    group: GroupEntry, number: int, cluster: ClusterEntry | None, owner: dict[int, int]
) -> list[Problem]:
    found: list[Problem] = []
    if len(group.devices) != group.op * group.pp:
        found.append((("devices",), f"{group.config} needs {group.op * group.pp} devices (got {len(group.devices)})"))
    for i, d in enumerate(group.devices):
        if cluster is not None and not 0 <= d < cluster.nodes * cluster.devices_per_node:
            last = cluster.nodes * cluster.devices_per_node - 1
            found.append((("devices", i), f"device {d} does not exist; the cluster has 0 … {last}"))
        if d in owner:
            found.append((("devices", i), f"device {d} belongs to groups[{owner[d]}] already; a device has one group"))
        owner.setdefault(d, number)
    return found


def _model_problems(group: GroupEntry, known: dict[str, int] | None) -> list[Problem]:
    found: list[Problem] = []
    for i, name in enumerate(group.models):
        if known is not None and name not in known:
            shown = ", ".join(list(known)[:8])
            found.append((("models", i), f"unknown model {name!r}; the plan lists {shown}"))
        if name in group.models[:i]:
            found.append((("models", i), f"{name!r} is in this group twice; a group holds one replica of a model"))
    for name, starts in group.partition.items():
        where = ("partition", name)
        if name not in group.models:
            found.append((where, f"the group does not hold {name!r}"))
        if len(starts) != group.pp or list(starts) != sorted(set(starts)) or (starts and starts[0] != 0):
            found.append((where, f"expected {group.pp} rising first layers from 0 (got {list(starts)})"))
    return found
