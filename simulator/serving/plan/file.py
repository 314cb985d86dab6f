"""`Plan`: planners write it, the simulator scores it, exporters translate it, and the runtime executes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, JsonValue, ValidationError, model_validator

from ....errors import InputError
from ....profiles.profile import ModelProfile
from ....traces.trace import Trace
from ...cluster import Cluster
from ...placement import Group, Placement
from ...plan.clusters import cluster_entry, cluster_of
from ...plan.entries import (
    ClusterEntry,
    DeviceEntry,
    GroupEntry,
    ModelEntry,
    PlannerEntry,
    Problem,
    Serving,
    SparseEntry,
    StageEntry,
    Workload,
    contradictions,
)
from ...plan.file import PlanFile, layout
from ...plan.reader import piece, pieces, problem_line
from .build import group_entries, model_entries, profiles_of, workload_entry

__all__ = [
    "ClusterEntry",
    "DeviceEntry",
    "GroupEntry",
    "ModelEntry",
    "Plan",
    "PlannerEntry",
    "Serving",
    "StageEntry",
    "Workload",
    "layout",
]


class Plan(PlanFile, SparseEntry):
    """A placement with all that is needed to simulate, export and run it.

    Build one with `Plan.of`; read one with `Plan.load`.
    """

    noun: ClassVar[str] = "a Meshwright plan"
    schema_id: ClassVar[str] = "urn:meshwright:schema:plan:1"
    rare: ClassVar[frozenset[str]] = frozenset({"case"})

    format: Literal["meshwright-plan"] = "meshwright-plan"
    version: Literal[1] = 1
    cluster: ClusterEntry
    models: tuple[ModelEntry, ...] = Field(min_length=1)
    groups: tuple[GroupEntry, ...] = Field(min_length=1)
    serving: Serving = Serving()
    workload: Workload | None = None
    case: dict[str, JsonValue] = Field(
        default={}, description="the case that it was planned for, as a file says it, without the planner"
    )
    planner: PlannerEntry
    profile: str = Field(default="", description="name of the profile set planned with")
    profile_digest: str = Field(default="", description="SHA-256 of that profile set")
    predicted: dict[str, float] = Field(default_factory=dict, description="simulated metric -> value")

    @model_validator(mode="after")
    def _consistent(self) -> Plan:
        problems = contradictions(self.cluster, self.models, self.groups)
        if problems:
            raise ValueError("; ".join(f"{'.'.join(map(str, loc))}: {what}" for loc, what in problems))
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
        """Build a plan from the simulator's objects.

        Parameters
        ----------
        cluster, placement, profiles
            The cluster, the placement on it, and the models' latencies. The placement is checked against the cluster's
            memory.
        planner : PlannerEntry
            The planner that made it, and its options.
        trace : Trace, optional
            The traffic that it was planned for; lists the models and their SLOs.
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
        InputError
            If an option of the planner or a metric cannot stand in JSON (NaN, infinity, an object).
        """
        placement.check(cluster, profiles)
        how = serving or Serving()
        digest = getattr(profiles, "digest", None)
        try:
            return cls(
                cluster=cluster_entry(cluster),
                models=model_entries(placement, profiles, trace, how.max_batch),
                groups=group_entries(placement, profiles),
                serving=how,
                workload=None if trace is None else workload_entry(trace, source),
                planner=planner,
                profile=getattr(profiles, "name", ""),
                profile_digest=str(digest()) if callable(digest) else "",
                predicted={key: float(value) for key, value in (predicted or {}).items()},
            )
        except ValidationError as error:
            raise InputError("\n".join(f"plan: {problem_line(e)}" for e in error.errors())) from None

    @property
    def placement(self) -> Placement:
        """The placement."""
        return Placement([Group(g.config, g.models, g.devices) for g in self.groups])

    @property
    def cluster_spec(self) -> Cluster:
        """The cluster as the simulator's object."""
        return cluster_of(self.cluster)

    def planned_profiles(self) -> dict[str, ModelProfile]:
        """The stage latencies and weights that the plan carries, as profiles of the placed models.

        Enough to simulate this placement, or to predict finishes in a router; not to plan another one.

        Raises
        ------
        InputError
            If a placed model has none.
        """
        return profiles_of(self.models, self.groups, f"plan by {self.planner.name}, profile {self.profile!r}")

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

    def _headline(self) -> str:
        groups = f"{len(self.groups)} group{'s' if len(self.groups) > 1 else ''}"
        where = f"{len(self.models)} models in {groups} on {self.cluster_spec.n_devices} x {self.cluster.device.name}"
        return f"{self.planner.name}: {where}{self._expected()}"

    @classmethod
    def between(cls, data: Mapping[str, Any]) -> list[Problem]:
        """What is wrong between the entries of a parsed file, as far as they can be read one by one."""
        return contradictions(
            piece(ClusterEntry, data.get("cluster")),
            pieces(ModelEntry, data.get("models")),
            pieces(GroupEntry, data.get("groups")),
        )

    def explain(self) -> str:
        """The plan in words: who decided what for which traffic, and what is expected of it."""
        who = f"{self.planner.name} {self.planner.version}"
        seed = "" if self.planner.seed is None else f", seed {self.planner.seed}"
        lines = [f"{who}{seed}: {len(self.models)} models on {self.cluster_spec}"]
        if self.workload:
            w = self.workload
            rate = sum(w.rate_per_s.values())
            lines.append(f"traffic: {w.requests} requests in {w.duration_s:.6g} s ({rate:.4g}/s) {w.source}".rstrip())
        slos = sorted({m.slo_s for m in self.models if m.slo_s is not None})
        if slos:
            span = f"{slos[0]:.4g}" if len(slos) == 1 else f"{slos[0]:.4g} … {slos[-1]:.4g}"
            lines.append(f"SLO: {span} s")
        s = self.serving
        batching = f", batches up to {s.max_batch}" if s.max_batch > 1 else ""
        lines.append(f"serving: {s.dispatch}, admission {'on' if s.admission else 'off'}{batching}")
        lines.append(str(self.placement))
        idle = self.cluster_spec.n_devices - self.placement.n_devices
        if idle:
            lines.append(f"idle devices: {idle}")
        placed = set(self.placement.models)
        missing = [m.name for m in self.models if m.name not in placed]
        if missing:
            lines.append(f"models without a replica (all their requests are rejected): {', '.join(missing)}")
        lines += [f"{key}: {value:.6g}" for key, value in self.predicted.items()]
        lines.append(f"planned in {self.planner.seconds:.3g} s, {self.planner.evaluations} evaluations")
        return "\n".join(lines)
