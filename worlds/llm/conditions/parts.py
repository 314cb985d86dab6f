"""What befalls engines, as a case says it; spelt as in the serving world where it means the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from ....errors import InputError
from ...file.units import parse_bandwidth, parse_seconds
from ...limits import MAX_BYTES_PER_S, MAX_DEVICES, MAX_REPEATS, MAX_REQUESTS, MAX_SECONDS
from ..part import Part

__all__ = ["FailuresCase", "LoadingCase", "ScalingCase"]

Seconds = Annotated[float, BeforeValidator(parse_seconds), Field(gt=0, le=MAX_SECONDS)]
Wait = Annotated[float, BeforeValidator(parse_seconds), Field(ge=0, le=MAX_SECONDS)]
Bandwidth = Annotated[float, BeforeValidator(parse_bandwidth), Field(ge=1, le=MAX_BYTES_PER_S)]
Entry = Mapping[str, Any]
MIN_EVERY_S = 1e-3
"""Seconds between evaluations; a run evaluates as often as they fit into it."""


class FailuresCase(Part):
    """When devices fail and come back, and what becomes of the requests: see docs/llm-fleet.md."""

    mtbf: Seconds | None = Field(default=None, description="mean seconds between failures of a device, exponential")
    mttr: Seconds | None = Field(default=None, description="mean seconds until a device is repaired, exponential")
    script: str | tuple[Entry, ...] | None = Field(
        default=None,
        description="failures at known times, a list of {at: 12, device: 3, for: 20} (or node, or group, an engine), "
        "or the file of one",
    )
    in_flight: Literal["retried", "lost"] = Field(
        default="retried", description="what becomes of the requests that an engine had: sent elsewhere, or lost"
    )
    tokens: Literal["lose", "keep"] = Field(
        default="lose", description="what becomes of the tokens that such a request had: made anew, or in its prompt"
    )
    max_retries: int = Field(
        default=3,
        ge=0,
        le=MAX_REPEATS,
        description="number of failures that a request survives; more, and it is given up",
    )
    notice: Wait = Field(default=0.0, description="seconds until requests of a failed engine are sent elsewhere")

    @model_validator(mode="after")
    def _whole(self) -> FailuresCase:
        if (self.mtbf is None) != (self.mttr is None):
            raise ValueError("mtbf and mttr go together; give both or none")
        if self.in_flight == "lost":
            for name in ("tokens", "max_retries", "notice"):
                if name in self.model_fields_set:
                    raise ValueError(f"{name}: is of requests that are sent elsewhere; leave out in_flight: lost")
        if not isinstance(self.script, str) and self.script is not None:
            from ....simulator.failures import events_of

            try:
                events_of(self.script)
            except InputError as error:
                raise ValueError(str(error)) from None
        return self

    @property
    def said(self) -> bool:
        """Whether anything fails."""
        return self.random or self.script is not None

    @property
    def random(self) -> bool:
        """Whether failures are drawn."""
        return self.mtbf is not None


class LoadingCase(Part):
    """What an engine takes until it serves, after a repair or when it is started by load."""

    disk: Bandwidth | None = Field(
        default=None,
        description="bytes per second of a node's disk, such as 2 GB/s, which the engine's devices on it share; "
        "loading costs nothing if left out",
    )
    start: Wait = Field(default=0.0, description="seconds that an engine takes before it loads")


class ScalingCase(Part):
    """When engines of the plan are started and given back: see docs/llm-fleet.md."""

    least: int | None = Field(
        default=None, ge=1, le=MAX_DEVICES,
        description="number of engines of a deployment that always serve; the others are started and given back by "
        "load; all serve if left out",
    )  # fmt: skip
    by: Literal["outstanding", "outstanding_tokens", "waiting", "running", "kv_use"] = Field(
        default="outstanding",
        description="what the load is: requests (or tokens of their prompts) that an engine has, that wait, that run, "
        "or the share of its KV memory in use",
    )
    load: float | None = Field(
        default=None, gt=0, le=MAX_REQUESTS, description="load of an engine to aim at: requests, tokens or a share"
    )
    every: Annotated[float, BeforeValidator(parse_seconds), Field(ge=MIN_EVERY_S, le=MAX_SECONDS)] = Field(
        default=15.0, description="seconds between evaluations of the load"
    )
    hold: Seconds = Field(
        default=300.0, description="seconds for which fewer engines must have been enough before one is drained"
    )

    @model_validator(mode="after")
    def _whole(self) -> ScalingCase:
        if self.least is None:
            for name in ("by", "load", "every", "hold"):
                if getattr(self, name) != type(self).model_fields[name].default:
                    raise ValueError(f"{name}: needs least, the number of engines that always serve")
        elif self.load is None:
            raise ValueError("least: needs load, the load of an engine to aim at")
        return self
