"""What a serving case says of groups that are started and drained by load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ....reprs import Shown
from ...file.units import parse_seconds
from ...limits import MAX_DEVICES, MAX_REQUESTS, MAX_SECONDS

if TYPE_CHECKING:  # a case is read without the simulator, whose kernels take long to load
    from ....profiles import ModelProfile
    from ....simulator.cluster import Cluster
    from ....simulator.placement import Placement
    from ....simulator.serving.breakdowns import Breakdowns
    from ....simulator.serving.policy.scaling import Scaling
    from .failing import LoadingCase

__all__ = ["ScalingCase", "repairs_of", "scaling_of"]

MIN_EVERY_S = 1e-3
"""Seconds between evaluations; a run evaluates as often as they fit into it."""

Load = Annotated[float, Field(ge=0, le=MAX_REQUESTS)]


class ScalingCase(Shown, BaseModel):
    """When groups of the plan are started and given back: see docs/serving.md."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    least: int | None = Field(
        default=None,
        ge=1,
        le=MAX_DEVICES,
        description="number of groups that always run (more where fewer do not hold every model); the others are "
        "started and given back by load; all run if left out",
    )
    by: Literal["outstanding", "utilization"] = Field(
        default="outstanding",
        description="what the load is: outstanding requests per group, or the share of the time for which groups had "
        "some",
    )
    up: Load | None = Field(default=None, description="load above which a group is started, requests or a share")
    down: Load | None = Field(default=None, description="load below which a group is drained, requests or a share")
    every: Annotated[float, BeforeValidator(parse_seconds), Field(ge=MIN_EVERY_S, le=MAX_SECONDS)] = Field(
        default=15.0, description="seconds between evaluations of the load"
    )
    hold: Annotated[float, BeforeValidator(parse_seconds), Field(ge=0, le=MAX_SECONDS)] = Field(
        default=300.0, description="seconds for which the load must have been low before a group is drained"
    )

    @model_validator(mode="after")
    def _whole(self) -> ScalingCase:
        if self.least is None:
            for name in ("by", "up", "down", "every", "hold"):
                if getattr(self, name) != type(self).model_fields[name].default:
                    raise ValueError(f"{name}: needs least, the number of groups that always run")
            return self
        if self.up is None or self.down is None:
            raise ValueError("least: needs up and down, the loads at which groups are started and drained; give both")
        if not self.down < self.up:
            raise ValueError(f"down: expected a load below up {self.up:g} (got {self.down:g})")
        return self


def scaling_of(
    said: ScalingCase,
    placement: Placement,
    cluster: Cluster,
    profiles: Mapping[str, ModelProfile],
    loading: LoadingCase,
) -> Scaling | None:
    """What a case says, as the simulator takes it for one placement; None if all groups run.

    A placement of fewer than `least` groups always runs all of them.
    """
    if said.least is None or said.up is None or said.down is None:
        return None
    from ....simulator.serving.breakdowns import start_s
    from ....simulator.serving.policy.scaling import Scaling

    seconds = tuple(start_s(placement, g, cluster, profiles, loading.loading) for g in range(len(placement.groups)))
    least = min(said.least, len(placement.groups))
    return Scaling(least, said.up, said.down, seconds, said.by, said.every, said.hold, loading.cold)


def repairs_of(breakdowns: Breakdowns | None, rule: Scaling | None) -> Breakdowns | None:
    """What fails, until it is repaired: what loads after that, and how long, the rule says if there is one."""
    if breakdowns is None or rule is None:
        return breakdowns
    return None if breakdowns.failures is None else replace(breakdowns, loading=None, cold_start=False)
