"""`Plan`: what planners emit, the simulator scores, exporters translate and the runtime executes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from .. import __version__
from ..errors import InputError
from ..files import write_text
from ..profiles.config import ParallelConfig
from ..profiles.hardware import DEVICES, DeviceSpec, LinkSpec
from ..profiles.profile import ModelProfile
from ..traces.trace import Trace
from .cluster import Cluster
from .placement import Group, Placement

__all__ = ["ClusterEntry", "GroupEntry", "ModelEntry", "Plan", "PlannerEntry", "Serving", "Workload"]

VERSION = 1


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class DeviceEntry(_Entry):
    """A device type, spelt out: a plan must mean the same where the name is not known."""

    name: str
    memory_bytes: int = Field(gt=0)
    usable_memory_bytes: int = Field(gt=0)
    peak_flops: float = Field(gt=0)
    memory_bandwidth_bytes_per_s: float = Field(gt=0)
    intra_node: tuple[float, float] = Field(description="bandwidth (bytes/s), latency (s)")
    inter_node: tuple[float, float] = Field(description="bandwidth (bytes/s), latency (s)")
    source: str = ""
    price_per_hour: float = 0.0


class ClusterEntry(_Entry):
    """The cluster that was planned for."""

    nodes: int = Field(gt=0)
    devices_per_node: int = Field(gt=0)
    device: DeviceEntry


class ModelEntry(_Entry):
    """One served model.

    ``architecture`` names a shipped model specification (`meshwright.kernels.specs`), from which the runtime builds
    the model with weights from ``seed``.
    """

    name: str
    architecture: str = ""
    seed: int = 0
    slo_s: float | None = Field(default=None, gt=0)


class GroupEntry(_Entry):
    """One group: its devices stage by stage, its parallel configuration, the models that it holds."""

    op: int = Field(gt=0)
    pp: int = Field(gt=0)
    devices: tuple[int, ...]
    models: tuple[str, ...]
    partition: dict[str, tuple[int, ...]] = Field(
        default_factory=dict, description="model -> first layer of each stage, where the profile knows it"
    )


class Workload(_Entry):
    """The traffic that was planned for."""

    requests: int = Field(ge=0)
    duration_s: float = Field(ge=0)
    rate_per_s: dict[str, float] = Field(default_factory=dict)
    source: str = ""


class PlannerEntry(_Entry):
    """Who planned it."""

    name: str
    options: dict[str, Any] = Field(default_factory=dict)
    version: str = __version__
    seed: int | None = None
    seconds: float = Field(default=0.0, ge=0)
    evaluations: int = Field(default=0, ge=0)


class Serving(_Entry):
    """How the controller serves it."""

    dispatch: Literal["shortest_queue", "earliest_finish", "earliest_free"] = "shortest_queue"
    admission: bool = True
    overhead_s: float = Field(default=0.0, ge=0)
    max_batch: int = Field(default=1, gt=0)


class Plan(_Entry):
    """A placement with all that is needed to simulate, export and run it.

    Build one with `Plan.of`; read one with `Plan.load`.
    """

    format: Literal["meshwright-plan"] = "meshwright-plan"
    version: Literal[1] = VERSION
    cluster: ClusterEntry
    models: tuple[ModelEntry, ...] = Field(min_length=1)
    groups: tuple[GroupEntry, ...] = Field(min_length=1)
    serving: Serving = Serving()
    workload: Workload | None = None
    planner: PlannerEntry
    profile: str = Field(default="", description="name of the profile set planned with")
    profile_digest: str = Field(default="", description="SHA-256 of that profile set")
    predicted: dict[str, float] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> Plan:
        names = [m.name for m in self.models]
        problems = [f"models: {name!r} is listed twice" for name in {n for n in names if names.count(n) > 1}]
        n_devices = self.cluster.nodes * self.cluster.devices_per_node
        owner: dict[int, int] = {}
        for g, group in enumerate(self.groups):
            if len(group.devices) != group.op * group.pp:
                problems.append(
                    f"groups[{g}].devices: op{group.op}pp{group.pp} needs {group.op * group.pp} devices "
                    f"(got {len(group.devices)})"
                )
            for d in group.devices:
                if not 0 <= d < n_devices:
                    problems.append(
                        f"groups[{g}].devices: device {d} does not exist; the cluster has 0 … {n_devices - 1}"
                    )
                if d in owner:
                    problems.append(f"groups[{g}].devices: device {d} belongs to groups[{owner[d]}] already")
                owner.setdefault(d, g)
            for name in group.models:
                if name not in names:
                    problems.append(
                        f"groups[{g}].models: unknown model {name!r}; the plan lists {', '.join(names[:8])}"
                    )
            for name, starts in group.partition.items():
                if (
                    len(starts) != group.pp
                    or list(starts) != sorted(set(starts))
                    or (starts and starts[0] != 0)
                ):
                    problems.append(
                        f"groups[{g}].partition[{name!r}]: expected {group.pp} rising layers from 0 (got {starts})"
                    )
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @classmethod
    def of(
        cls,
        cluster: Cluster,
        placement: Placement,
        profiles: Mapping[str, ModelProfile],
        *,
        planner: PlannerEntry,
        trace: Trace | None = None,
        serving: Serving | None = None,
        predicted: Mapping[str, float] | None = None,
        source: str = "",
    ) -> Plan:
        """Put a placement and its circumstances together.

        Parameters
        ----------
        cluster, placement, profiles
            What was decided, on what. The placement is checked against the cluster's memory.
        planner : PlannerEntry
            Who planned it.
        trace : Trace, optional
            The traffic planned for; lists the models and their SLOs.
        serving : Serving, optional
            Dispatch, admission, overhead, batching.
        predicted : mapping, optional
            Simulated metrics.
        source : str
            Where the traffic comes from.

        Raises
        ------
        InfeasibleError
            If the placement does not fit the cluster.
        """
        placement.check(cluster, profiles)
        names = trace.models if trace is not None else placement.models
        slos: dict[str, float | None] = dict.fromkeys(names)
        if trace is not None:
            for m, name in enumerate(trace.models):
                mine = trace.slo[trace.model == m]
                if len(mine) and np.isfinite(mine[0]) and (mine == mine[0]).all():
                    slos[name] = float(mine[0])
        listed = list(dict.fromkeys([*names, *placement.models]))
        models = tuple(
            ModelEntry(
                name=name,
                architecture=profiles[name].architecture if name in profiles else "",
                seed=i,
                slo_s=slos.get(name),
            )
            for i, name in enumerate(listed)
        )
        groups = []
        for group in placement.groups:
            partition = {name: profiles[name].stage(group.config).partition for name in group.models}
            groups.append(
                GroupEntry(
                    op=group.config.op, pp=group.config.pp, devices=group.devices or (), models=group.models,
                    partition={name: starts for name, starts in partition.items() if starts},
                )
            )  # fmt: skip
        workload = None
        if trace is not None:
            per_model = trace.counts() / trace.duration if trace.duration > 0 else np.zeros(len(trace.models))
            workload = Workload(
                requests=len(trace), duration_s=trace.duration, source=source,
                rate_per_s={name: float(r) for name, r in zip(trace.models, per_model, strict=True)},
            )  # fmt: skip
        spec = cluster.spec
        device = DeviceEntry(
            **{
                f: getattr(spec, f) for f in DeviceEntry.model_fields if f not in ("intra_node", "inter_node")
            },
            intra_node=(spec.intra_node.bandwidth_bytes_per_s, spec.intra_node.latency_s),
            inter_node=(spec.inter_node.bandwidth_bytes_per_s, spec.inter_node.latency_s),
        )
        return cls(
            cluster=ClusterEntry(
                nodes=cluster.nodes, devices_per_node=cluster.devices_per_node, device=device
            ),
            models=models,
            groups=tuple(groups),
            serving=serving or Serving(),
            workload=workload,
            planner=planner,
            profile=getattr(profiles, "name", ""),
            profile_digest=profiles.digest() if hasattr(profiles, "digest") else "",  # pyright: ignore
            predicted=dict(predicted or {}),
        )

    @property
    def placement(self) -> Placement:
        """The placement."""
        return Placement([Group(ParallelConfig(g.op, g.pp), g.models, g.devices) for g in self.groups])

    @property
    def cluster_spec(self) -> Cluster:
        """The cluster as the simulator's object."""
        d = self.cluster.device
        fields = d.model_dump()
        spec = DeviceSpec(
            **{**fields, "intra_node": LinkSpec(*d.intra_node), "inter_node": LinkSpec(*d.inter_node)}
        )
        known = DEVICES.get(d.name)
        device: str | DeviceSpec = d.name if known == spec else spec
        return Cluster(self.cluster.nodes, self.cluster.devices_per_node, device)

    def validate_for(self, cluster: Cluster, profiles: Mapping[str, ModelProfile]) -> None:
        """Check the plan against another cluster and its profiles.

        Raises
        ------
        InputError
            If it was made for another device type, or uses devices that `cluster` lacks.
        InfeasibleError
            If the weights do not fit.
        """
        if self.cluster.device.name != cluster.spec.name:
            raise InputError(
                f"plan: made for devices of type {self.cluster.device.name!r}, the cluster has "
                f"{cluster.spec.name!r}; plan again for it"
            )
        self.placement.check(cluster, profiles)

    def to_json(self) -> str:
        """The plan as JSON text, the same bytes for the same plan."""
        return json.dumps(self.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n"

    def save(self, path: str | Path) -> Path:
        """Write the plan as JSON, whole."""
        return write_text(path, self.to_json())

    @classmethod
    def from_json(cls, text: str, where: str = "plan") -> Plan:
        """Read a plan from JSON text; `where` names it in errors."""
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise InputError(
                f"{where}:{error.lineno}: not JSON: {error.msg}; was the file cut off?"
            ) from None
        if not isinstance(data, dict) or data.get("format") != "meshwright-plan":
            raise InputError(f'{where}: not a Meshwright plan (no "format": "meshwright-plan")')
        if data.get("version") != VERSION:
            raise InputError(
                f"{where}: version: this Meshwright reads version {VERSION} (got {data.get('version')!r})"
            )
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise InputError(
                "\n".join(
                    f"{where}: {'.'.join(str(x) for x in e['loc']) or 'plan'}: {e['msg']}"
                    + (f" (got {str(e['input'])[:60]!r})" if e["type"] != "value_error" else "")
                    for e in error.errors()
                )
            ) from None

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read a plan.

        Raises
        ------
        InputError
            If the file is missing, is no plan, or contradicts itself; all errors at once, a line each.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: cannot read the plan: {error}") from None
        return cls.from_json(text, str(path))

    def explain(self) -> str:
        """The plan in words: who decided what for which traffic, and what is expected of it."""
        lines = [f"{self.planner.name} for {len(self.models)} models on {self.cluster_spec}"]
        if self.workload:
            w = self.workload
            rate = sum(w.rate_per_s.values())
            lines.append(
                f"traffic: {w.requests} requests in {w.duration_s:.6g} s ({rate:.4g}/s) {w.source}".rstrip()
            )
        lines.append(str(self.placement))
        idle = self.cluster_spec.n_devices - self.placement.n_devices
        if idle:
            lines.append(f"idle devices: {idle}")
        missing = [m.name for m in self.models if m.name not in self.placement.models]
        if missing:
            lines.append(f"models without a replica (all their requests are rejected): {', '.join(missing)}")
        lines += [f"{key}: {value:.6g}" for key, value in self.predicted.items()]
        lines.append(f"planned in {self.planner.seconds:.3g} s, {self.planner.evaluations} evaluations")
        return "\n".join(lines)
