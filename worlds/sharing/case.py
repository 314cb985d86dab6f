"""What a case of the sharing world says: cluster, apps or a workload, leases, what a change costs, planner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, WithJsonSchema, model_validator

from ...simulator.sharing import MODELS
from ...simulator.sharing.workload.logs import Grouping
from ...traces.clusters.jobs import Ended
from ...wording import dotted, nearest
from ..file.json_schema import Generate
from ..limits import MAX_APPS, MAX_DEVICES, MAX_FACTOR, MAX_JOBS, MAX_RACKS, MAX_REPEATS
from ..spreads import SpreadCase
from ..world import CIRCUMSTANCE, Case
from .part import Factor, Fraction, Gpus, GpuSeconds, Part, Restart, Seconds, Some, SomeSeconds
from .policies import POLICIES, BaselineOptions, ThemisOptions, complaints_of

__all__ = [
    "AppCase", "AppFailureCase", "BeliefsCase", "FailuresCase", "JobCase", "MachineCase", "MachineFailureCase",
    "OverheadsCase", "PolicyCase", "SharedClusterCase", "SharingCase", "SharingWorkloadCase",
]  # fmt: skip


def _known(what: str, names: tuple[str, ...], name: str) -> str:
    if name not in names:
        near = nearest(name, names)
        hint = f"did you mean {near!r}?" if near else f"known: {', '.join(names)}"
        raise ValueError(f"unknown {what} {name!r}; {hint}")
    return name


PolicyName = Annotated[
    str,
    AfterValidator(lambda name: _known("sharing policy", POLICIES, name)),
    WithJsonSchema({"type": "string", "enum": list(POLICIES)}),
]
ModelName = Annotated[
    str,
    AfterValidator(lambda name: _known("model", tuple(MODELS), name)),
    WithJsonSchema({"type": "string", "enum": list(MODELS)}),
]


class MachineCase(Part):
    """Machines of one kind."""

    gpus: Gpus = Field(description="number of GPUs of each")
    count: Gpus = Field(default=1, description="number of such machines")
    gpus_per_slot: Gpus = Field(default=1, description="number of GPUs that share a slot; divides gpus")
    rack: Annotated[int, Field(ge=0, lt=MAX_RACKS)] | None = Field(
        default=None, description="number of the rack in which they stand; by default dealt to the racks in turn"
    )

    @model_validator(mode="after")
    def _whole_slots(self) -> MachineCase:
        if self.gpus % self.gpus_per_slot:
            raise ValueError(f"gpus_per_slot: {self.gpus_per_slot} do not divide {self.gpus} GPUs; give a divisor")
        return self


def one_of(*names: str) -> ConfigDict:
    """For editors: exactly one of these is said."""
    return ConfigDict(json_schema_extra={"oneOf": [{"required": [name]} for name in names]})


class SharedClusterCase(Part):
    """The GPUs: a preset, kinds of machines, or a number of devices in equal machines."""

    model_config = one_of("preset", "machines", "devices")

    preset: Literal["themis-testbed", "themis-168", "themis-256"] | None = Field(
        default=None,
        description="clusters of Themis: 64 GPUs (§6.1), the 168 that footnote 6 lists, the 256 that the text says",
    )
    machines: tuple[MachineCase, ...] = Field(default=(), description="kinds of machines")
    devices: Gpus | None = Field(default=None, description="number of GPUs, in equal machines")
    devices_per_node: Gpus = Field(default=8, description="with devices: number of GPUs of a machine, at most")
    racks: Gpus = Field(default=4, description="number of racks that machines are dealt to in turn")
    contention: Annotated[Gpus, CIRCUMSTANCE] = Field(
        default=1, description="factor of fewer GPUs: keep one of so many machines of each kind (§6.2.2)"
    )

    @model_validator(mode="after")
    def _not_too_many(self) -> SharedClusterCase:
        total = sum(m.gpus * m.count for m in self.machines)
        if total > MAX_DEVICES:
            raise ValueError(f"machines: {total} GPUs; expected at most {MAX_DEVICES} in all")
        return self

    @model_validator(mode="after")
    def _one_form(self) -> SharedClusterCase:
        said = [n for n in ("preset", "machines", "devices") if getattr(self, n)]
        if len(said) != 1:
            raise ValueError(f"give one of preset, machines and devices (got {', '.join(said) or 'none'})")
        if self.devices is not None and self.devices % min(self.devices, self.devices_per_node):
            raise ValueError(f"devices: {self.devices} fill no whole machines of {self.devices_per_node}")
        return self


class JobCase(Part):
    """Jobs that are alike."""

    work: GpuSeconds | None = Field(default=None, description="GPU seconds of each job; of halving, leave it out")
    iteration: SomeSeconds = Field(default=1.0, description="seconds of an iteration on one GPU")
    gpus: Gpus = Field(default=1, description="number of GPUs that it can use at most")
    gang: Gpus = Field(default=1, description="number of GPUs without which it does not run")
    count: Annotated[int, Field(gt=0, le=MAX_JOBS)] = Field(default=1, description="number of such jobs")
    optimism: Annotated[float, Field(ge=1, le=MAX_FACTOR)] = Field(
        default=1.0, description="of curve: factor by which the first guess is off"
    )

    @model_validator(mode="after")
    def _gang_fits(self) -> JobCase:
        if self.gang > self.gpus:
            raise ValueError(f"gang: {self.gang} tasks run together, and gpus lets it use {self.gpus}; raise gpus")
        return self


Slower = Annotated[float, Field(ge=1, le=MAX_FACTOR)]


class SlowdownCase(Part):
    """What distance costs: factors by the widest link."""

    slot: Slower = Field(default=1.0, description="factor of the time within a slot")
    machine: Slower = Field(default=1.0, description="factor of the time within a machine")
    rack: Slower = Field(default=1.1, description="factor of the time within a rack")
    cluster: Slower = Field(default=1.3, description="factor of the time across racks")

    @model_validator(mode="after")
    def _does_not_fall(self) -> SlowdownCase:
        levels = (self.slot, self.machine, self.rack, self.cluster)
        if list(levels) != sorted(levels):
            raise ValueError(f"slot, machine, rack, cluster: farther is not faster (got {levels}); sort them")
        return self


class AppCase(Part):
    """An app: one job, some, or a search over hyper-parameters."""

    name: str = Field(min_length=1, description="what results call it")
    arrival: Seconds = Field(default=0.0, description="when it arrives, seconds")
    kind: Literal["jobs", "halving", "curve"] = Field(
        default="jobs", description="all jobs known; successive halving; jobs stopped by their curves"
    )
    jobs: Annotated[tuple[JobCase, ...], Some] = Field(description="its jobs")
    budget: GpuSeconds | None = Field(default=None, description="of halving: GPU seconds of all phases")
    doubling: bool = Field(default=False, description="of halving: 1, 2, 4 … GPUs by phase (§4.3.2)")
    model: ModelName | None = Field(default=None, description="a model of Table 4, which decides the slowdown")
    slowdown: SlowdownCase | None = Field(
        default=None, description="what distance costs, instead of the model's, or of 1 / 1 / 1.1 / 1.3"
    )

    @model_validator(mode="after")
    def _work_is_said(self) -> AppCase:
        if self.kind == "halving":
            if self.budget is None:
                raise ValueError("budget: is missing; an app of kind halving divides it over its phases")
            if any(job.work is not None for job in self.jobs):
                raise ValueError("jobs: work goes with kinds jobs and curve; of halving leave it out")
        else:
            if any(job.work is None for job in self.jobs):
                raise ValueError(f"jobs: work is missing; an app of kind {self.kind} says it for each job")
            if self.budget is not None or self.doubling:
                raise ValueError(f"budget, doubling: go with kind halving (got {self.kind})")
        return self


class SharingWorkloadCase(Part):
    """Apps that are drawn or read, instead of listed. Fields left out have the defaults of `WorkloadOptions`."""

    kind: Literal["themis-1", "themis-2", "philly", "helios", "alibaba"] = Field(
        description="where apps come from: Workload 1 or 2 of Themis, drawn; or a public trace"
    )
    trace: str | None = Field(default=None, description="the trace's file; of alibaba its table of jobs")
    trace_tasks: str | None = Field(default=None, description="of alibaba: its table of tasks")
    trace_instances: str | None = Field(
        default=None, description="of alibaba: its table of instances, for the GPU time of each; may be left out"
    )
    by: Grouping | None = Field(default=None, description="of a trace: what jobs of an app share; user and group")
    window: Seconds | None = Field(
        default=None, description="of a trace: jobs of a user within so many seconds are an app; 1 h"
    )
    ended: Annotated[tuple[Ended, ...], Some] | None = Field(
        default=None, description="of a trace: only jobs that ended so; done, failed and killed"
    )
    start: Seconds | None = Field(
        default=None, description="of a trace: only apps that arrive from here on, seconds; 0"
    )
    stop: SomeSeconds | None = Field(
        default=None, description="of a trace: only apps that arrive before, seconds; its end"
    )
    apps: Annotated[int, Field(gt=0, le=MAX_APPS)] | None = Field(
        default=None, description="number of apps that are drawn; of a trace, the first so many"
    )
    span: SomeSeconds | None = Field(default=None, description="drawn: seconds over which apps arrive; 14 days")
    burstiness: Factor | None = Field(default=None, description="drawn: CV of times between arrivals, a ratio; 2")
    scale: Factor = Field(default=1.0, description="factor that multiplies all work")
    rate_scale: Factor = Field(default=1.0, description="factor that multiplies the rate of arrivals")
    network_intensive: Fraction | None = Field(default=None, description="share of such apps, 0 to 1; Table 4's mix")
    error: Annotated[Fraction, Field(lt=1)] = Field(default=0.0, description="share by which agents err (Fig. 17)")
    rigid: bool = Field(default=False, description="whether jobs need all of their GPUs at once")
    tasks: tuple[Gpus, ...] | None = Field(
        default=None, description="of themis-2: numbers of GPUs of an app's jobs; 2, 4, 8"
    )
    doubling: bool = Field(default=False, description="of themis-2: 1, 2, 4 … GPUs by phase (§4.3.2)")

    @model_validator(mode="after")
    def _one_source(self) -> SharingWorkloadCase:
        drawn = self.kind.startswith("themis")
        if drawn and self.trace is not None:
            raise ValueError(f"trace: {self.kind} is drawn; leave it out, or give the trace's kind")
        if not drawn:
            if self.trace is None:
                raise ValueError(f"trace: is missing; {self.kind} is read from a file")
            shaped = [n for n in ("span", "burstiness") if getattr(self, n) is not None]
            if shaped:
                raise ValueError(f"{shaped[0]}: shapes drawn workloads, and {self.kind} is a trace; leave it out")
        if drawn:
            chosen = [n for n in ("by", "window", "ended", "start", "stop") if getattr(self, n) is not None]
            if chosen:
                raise ValueError(f"{chosen[0]}: chooses jobs of a trace, and {self.kind} is drawn; leave it out")
        if (self.kind == "alibaba") != (self.trace_tasks is not None):
            raise ValueError(f"trace_tasks: is for alibaba, which needs it (got {self.kind})")
        if self.kind != "alibaba" and self.trace_instances is not None:
            raise ValueError(f"trace_instances: is for alibaba (got {self.kind})")
        if self.stop is not None and self.stop <= (self.start or 0.0):
            raise ValueError(f"stop: expected a time after start, {self.start or 0:g} s (got {self.stop:g} s)")
        if self.kind != "themis-2" and (self.tasks is not None or self.doubling):
            raise ValueError(f"tasks, doubling: go with themis-2 (got {self.kind})")
        return self


class OverheadsCase(Part):
    """What a change of GPUs costs a job."""

    checkpoint: Restart = Field(default=7.5, description="seconds to save and load; 5–10 in the paper")
    container: Restart = Field(default=35.0, description="seconds until the container runs; 35–50 in the paper")
    containers: Literal["job", "app"] = Field(
        default="job", description="whose they are: a job's, or the app's, whose jobs take turns in them"
    )


class BeliefsCase(Part):
    """What agents know of what distance costs."""

    slowdown: Literal["known", "assumed", "learned"] = Field(
        default="known", description="known; 1, 1.1 and 1.3 for ever; or those until iterations were timed"
    )
    least: Annotated[int, Field(ge=1, le=MAX_JOBS)] = Field(
        default=20, description="of learned: number of iterations before a start value is given up"
    )
    spread: Annotated[Fraction, Field(lt=1)] = Field(
        default=0.0, description="of learned: share of its mean by which an iteration's time spreads"
    )


class MachineFailureCase(Part):
    """A machine that is gone for a while."""

    machine: int = Field(ge=0, le=MAX_DEVICES, description="number of the machine, from 0")
    at: Seconds = Field(description="when it fails, seconds")
    repair: SomeSeconds = Field(description="seconds until it is back")


class AppFailureCase(Part):
    """An app that ends before its work is done."""

    app: str = Field(description="its name")
    at: Seconds = Field(description="when it fails, seconds")


class FailuresCase(Part):
    """What fails when."""

    machines: tuple[MachineFailureCase, ...] = Field(default=(), description="machines that are gone for a while")
    apps: tuple[AppFailureCase, ...] = Field(default=(), description="apps that end before their work is done")


OPTIONS = (
    ThemisOptions.model_json_schema(schema_generator=Generate)["properties"]
    | BaselineOptions.model_json_schema(schema_generator=Generate)["properties"]
)


class PolicyCase(Part):
    """Who plans: Themis, or a scheduler that it is compared with."""

    name: PolicyName = Field(default="themis", description="a policy's name: themis, gandiva, tiresias, …")
    label: str = Field(default="", description="how tables call it; by default its name")
    options: Annotated[
        Mapping[str, Any],
        WithJsonSchema({"type": "object", "properties": OPTIONS, "additionalProperties": False}),
    ] = Field(
        default_factory=dict,
        description="of themis: fairness, payments, rounding, visibility, leftovers; of the others: placement",
    )

    @model_validator(mode="after")
    def _has_such_options(self) -> PolicyCase:
        if wrong := [f"options.{dotted(at)}: {what}" for at, what in complaints_of(self.name, self.options)]:
            raise ValueError("; ".join(wrong))
        return self

    @property
    def called(self) -> str:
        """What tables call it."""
        return self.label or self.name


class SharingCase(Case):
    """One case of the sharing world: apps on a cluster under a policy.

    A replication draws another workload, the same for every policy, lease, f and contention.
    """

    model_config = one_of("apps", "workload")

    cluster: SharedClusterCase
    apps: Annotated[tuple[AppCase, ...], CIRCUMSTANCE] = Field(
        default=(), description="apps, listed; or give a workload"
    )
    workload: Annotated[SharingWorkloadCase | None, CIRCUMSTANCE] = Field(
        default=None, description="apps, drawn or from a trace"
    )
    lease: SomeSeconds = Field(default=600.0, description="seconds that a grant binds a policy that preempts")
    lease_ends: Literal["apart", "together"] = Field(
        default="apart", description="so long after each grant; or at multiples of the lease, all GPUs in one round"
    )
    overheads: Annotated[OverheadsCase, CIRCUMSTANCE] = OverheadsCase()
    estimates: Literal["fluid", "slowest"] = Field(
        default="fluid",
        description="how agents estimate a phase: as Table 3 does, or when its slowest job ends (Eq. 2)",
    )
    beliefs: BeliefsCase = BeliefsCase()
    failures: Annotated[FailuresCase, CIRCUMSTANCE] = FailuresCase()
    max_time: Annotated[SomeSeconds | None, CIRCUMSTANCE] = Field(
        default=None, description="when an app that has not ended is called endless, seconds"
    )
    times: Annotated[Literal["mean", "drawn"], CIRCUMSTANCE] = Field(
        default="mean", description="mean: an iteration takes its time; drawn: it varies, and an interval is given"
    )
    draws: Annotated[int, CIRCUMSTANCE] = Field(
        default=40, ge=2, le=MAX_REPEATS, description="number of draws of times, for the interval"
    )
    spread: Annotated[SpreadCase | None, CIRCUMSTANCE] = Field(
        default=None, description="how drawn times vary, by GPU and in time"
    )
    planner: PolicyCase = PolicyCase()

    @model_validator(mode="after")
    def _varies(self) -> SharingCase:
        if self.times == "mean" and self.spread is not None:
            raise ValueError("spread: is of drawn times; set times: drawn")
        if self.times == "drawn" and self.spread is None:
            raise ValueError("times: nothing says how they vary; give spread (visits; or runs and correlation)")
        return self

    @model_validator(mode="after")
    def _one_source(self) -> SharingCase:
        if bool(self.apps) == (self.workload is not None):
            raise ValueError("give one of apps (listed) and workload (drawn, or a trace)")
        return self
