"""What a case of the serving world says: cluster, models, traffic, serving, planner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ...reprs import Shown
from ..file.units import parse_bytes, parse_fraction
from ..limits import (
    MAX_BYTES,
    MAX_DEVICES,
    MAX_FACTOR,
    MAX_MODELS,
    MAX_PRICE,
    MAX_RATE,
    MAX_REPEATS,
    MAX_REQUESTS,
    MAX_SECONDS,
    MIN_BYTES,
    MIN_FACTOR,
)
from ..spreads import SpreadCase
from ..world import CIRCUMSTANCE, Case
from .conditions.failing import FailuresCase, LoadingCase
from .conditions.scaled import ScalingCase

__all__ = ["ClusterCase", "PlannerCase", "ServingCase", "ServingOptions", "WorkloadCase"]

Bytes = Annotated[int, BeforeValidator(parse_bytes), Field(ge=MIN_BYTES, le=MAX_BYTES)]
Fraction = Annotated[float, BeforeValidator(parse_fraction)]
Scale = Annotated[float, Field(ge=MIN_FACTOR, le=MAX_FACTOR)]
Rate = Annotated[float, Field(gt=0, le=MAX_RATE)]
Seconds = Annotated[float, Field(gt=0, le=MAX_SECONDS)]


class _Part(Shown, BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ClusterCase(_Part):
    """The devices. `devices` fill nodes of `devices_per_node` as `Cluster.of` says."""

    devices: int = Field(gt=0, le=MAX_DEVICES, description="number of devices")
    devices_per_node: int = Field(
        default=8,
        gt=0,
        le=MAX_DEVICES,
        description="number of devices in a node; a number that fills no whole nodes stands in nodes of one device",
    )
    device: str = Field(default="v100-16gb", description="device type; if left out, that of the profile")
    memory: Bytes | None = Field(
        default=None, description="usable memory per device in bytes, such as 13 GiB; else the type's"
    )
    price_per_hour: Annotated[float | None, CIRCUMSTANCE] = Field(
        default=None, ge=0, le=MAX_PRICE, description="price of one device-hour; else the type's"
    )


class WorkloadCase(_Part):
    """The traffic: generated from a rate, or measured."""

    rate: Rate | None = Field(default=None, description="requests per second, all models")
    cv: Scale = Field(
        default=1.0, description="coefficient of variation of inter-arrival times, a ratio; of generated traffic"
    )
    duration: Seconds = Field(default=300.0, description="seconds of generated traffic")
    split: Literal["uniform"] | Mapping[str, float] | tuple[float, ...] = Field(
        default="uniform",
        description="generated traffic: uniform, {power_law: EXPONENT} by position, shares by model, or in order",
    )
    trace: str | None = Field(default=None, description="measured traffic: a trace file")
    resample: bool = Field(default=False, description="draw new traffic from Gamma windows fitted to the trace")
    window: Seconds = Field(default=60.0, description="seconds of a window that is fitted to a trace")
    rate_scale: Scale = Field(
        default=1.0,
        description="factor that multiplies every rate; a trace that is not resampled is squeezed in time by it",
    )
    cv_scale: Scale = Field(
        default=1.0, description="factor that multiplies every CV; a trace must be resampled for it"
    )
    slo: Seconds | None = Field(default=None, description="SLO of every request, seconds")
    slo_scale: Scale | None = Field(
        default=None,
        description="SLO as a multiple of single-device latency, a factor; 5 if neither is given and none is read",
    )
    slo_device: str | None = Field(
        default=None, description="device type whose latency slo_scale multiplies, where profile names several"
    )

    @model_validator(mode="after")
    def _one_source(self) -> WorkloadCase:
        if (self.rate is None) == (self.trace is None):
            raise ValueError("give one of rate (generated traffic) and trace (a file)")
        if self.slo is not None and self.slo_scale is not None:
            raise ValueError("give one of slo (seconds) and slo_scale (multiple of single-device latency)")
        if self.rate is not None and (asked := self.rate * self.rate_scale * self.duration) > MAX_REQUESTS:
            raise ValueError(f"rate: {asked:.3g} requests are drawn; expected at most {MAX_REQUESTS:.0e} of them")
        if self.trace is None and self.resample:
            raise ValueError("resample: needs a trace to fit; generated traffic is drawn anew anyway")
        if self.trace is None and "window" in self.model_fields_set:
            raise ValueError("window: is fitted to a trace, and none is given")
        shaped = [name for name in ("cv", "duration", "split") if name in self.model_fields_set]
        if self.trace is not None and shaped:
            raise ValueError(f"{shaped[0]}: shapes generated traffic, but a trace is given; leave it out")
        if self.trace is not None and not self.resample and self.cv_scale != 1:
            raise ValueError("cv_scale: a trace's CV changes only when it is resampled; set resample: true")
        return self


class ServingOptions(_Part):
    """How requests are served."""

    dispatch: Literal["shortest_queue", "earliest_finish", "earliest_free"] = Field(
        default="shortest_queue",
        description="who gets a request: the group with the fewest, the one that ends first, or that is free first",
    )
    admission: bool = Field(default=True, description="reject requests that would miss their deadline")
    max_batch: int = Field(default=1, gt=0, le=MAX_REQUESTS, description="largest dynamic batch, number of requests")
    overhead: Annotated[float | None, CIRCUMSTANCE] = Field(
        default=None, ge=0, le=MAX_SECONDS, description="seconds added to every finish; else the profile's"
    )
    times: Annotated[Literal["mean", "drawn"], CIRCUMSTANCE] = Field(
        default="mean",
        description="mean: everything takes what the profile says; drawn: it varies, and an interval is given",
    )
    draws: Annotated[int, CIRCUMSTANCE] = Field(
        default=200, ge=2, le=MAX_REPEATS, description="number of draws of times and failures, for the interval"
    )
    spread: Annotated[SpreadCase | None, CIRCUMSTANCE] = Field(
        default=None, description="how drawn times vary; if left out, as the profile was measured to"
    )

    admission_quantile: Annotated[float | None, CIRCUMSTANCE] = Field(
        default=None,
        gt=0,
        lt=1,
        description="the controller predicts with this quantile of stage times, a share of visits; else their mean",
    )

    @model_validator(mode="after")
    def _varies(self) -> ServingOptions:
        if self.times == "mean" and self.spread is not None:
            raise ValueError("spread: is of drawn times; set times: drawn")
        if self.times == "mean" and self.admission_quantile is not None:
            raise ValueError("admission_quantile: of times that do not vary there is one alone; set times: drawn")
        return self


class PlannerCase(_Part):
    """Who plans: a planner by name with its options, or a plan that exists."""

    name: str = Field(default="alpaserve", description="a planner's name, or path/to/file.py:name")
    label: str = Field(default="", description="how the study calls it; by default its name")
    options: Mapping[str, Any] = Field(default_factory=dict, description="options of the planner")
    plan: str | None = Field(default=None, description="an existing plan file, evaluated as it stands")
    plan_on: Literal["same", "history"] = Field(
        default="same",
        description="plan on the traffic that is scored (as AlpaServe does), or on another draw of the same process",
    )
    planned_for: Annotated[Mapping[str, Any], CIRCUMSTANCE] = Field(
        default_factory=dict,
        description="plan for the case with these fields (path -> value), then score that plan on the case as it is",
    )
    lost_groups: Annotated[Literal["worst"] | tuple[Annotated[int, Field(ge=0, le=MAX_DEVICES)], ...], CIRCUMSTANCE] = (
        Field(
            default=(),
            description="number of each group of the plan that has failed, from 0; worst: the one that hurts most",
        )
    )


class ServingCase(Case):
    """One case of the serving world.

    A replication draws the same arrivals for every planner and every value of what leaves the traffic alone (cluster,
    serving, SLOs). Another rate stretches the same draw in time; another CV draws other gaps from the same stream.
    """

    cluster: ClusterCase
    models: Annotated[
        str | tuple[str, ...] | Mapping[str, Annotated[int, Field(ge=0, le=MAX_MODELS)]] | None, CIRCUMSTANCE
    ] = Field(
        default=None,
        description="S1 … S4, names (bert-1.3b, or bert-1.3b-7 for an instance), or a number of instances by name; if "
        "left out the trace's models, or for generated traffic all of the profile",
    )
    profile: Annotated[str | Mapping[str, str], CIRCUMSTANCE] = Field(
        default="alpaserve-v100", description="profile set, shipped or a file; or one for each device type"
    )
    speed: Annotated[Mapping[str, Scale], CIRCUMSTANCE] = Field(
        default_factory=dict,
        description="device type -> factor of its assumed speed over the device that its profile holds for: divides "
        "every latency, the communication in it too; SLOs that slo_scale gives stay those of the profile",
    )
    workload: Annotated[WorkloadCase, CIRCUMSTANCE]
    serving: ServingOptions = ServingOptions()
    failures: Annotated[FailuresCase, CIRCUMSTANCE] = FailuresCase()
    loading: Annotated[LoadingCase, CIRCUMSTANCE] = LoadingCase()
    scaling: Annotated[ScalingCase, CIRCUMSTANCE] = ScalingCase()
    planner: PlannerCase = PlannerCase()
    warmup: Annotated[float, CIRCUMSTANCE] = Field(
        default=0.0, ge=0, le=MAX_SECONDS, description="seconds left out of the metrics at each end of the traffic"
    )

    def identity(self) -> dict[str, Any]:
        """As plain data; the order of models is part of it, since shares by position follow it."""
        said = super().identity()
        return said | {"models": list(self.models.items())} if isinstance(self.models, Mapping) else said
