"""What a study file may ask, checked: one model for each kind of question, told apart by `find`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictInt, model_validator

from ...reprs import Shown
from ...worlds.file.units import parse_fraction

__all__ = [
    "CheapestCluster",
    "Extreme",
    "FewestDevices",
    "Headroom",
    "HighestCv",
    "HighestRate",
    "Question",
    "QuestionBase",
    "TightestSlo",
    "WhatBreaksFirst",
]

Positive = Annotated[float, Field(gt=0)]
Tolerance = Annotated[float, BeforeValidator(parse_fraction), Field(gt=0, lt=1)]
Change = Annotated[float, BeforeValidator(parse_fraction), Field(gt=0, lt=1)]
Factor = Literal["rate", "cv", "slo", "devices", "device fails", "memory", "speed", "links", "overhead"]
FACTORS: tuple[Factor, ...] = ("rate", "cv", "slo", "devices", "device fails", "memory", "speed", "links", "overhead")
ALIASES = {
    "devices lost": "devices", "a device fails": "device fails", "slower devices": "speed", "slo scale": "slo",
    "rate scale": "rate", "cv scale": "cv", "slower links": "links", "link speed": "links",
}  # fmt: skip


def plain(text: str) -> str:
    """A name as people write it: ``fewest_devices`` and ``Fewest-Devices`` are ``fewest devices``."""
    return " ".join(text.replace("_", " ").replace("-", " ").lower().split())


def _nearest(what: str, given: str, known: tuple[str, ...]) -> ValueError:
    near = difflib.get_close_matches(plain(given), known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(known)}"
    return ValueError(f"unknown {what} {given!r}; {hint}")


def _tuple(value: Any) -> Any:
    """A list as a tuple: whoever validates strictly takes no list for one."""
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value


def _factor(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    name = plain(value)
    name = ALIASES.get(name, name)
    if name not in FACTORS:
        raise _nearest("factor", value, (*FACTORS, *ALIASES))
    return name


class QuestionBase(Shown, BaseModel):
    """What all questions say: which metric must keep which bound."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    target: Annotated[float, BeforeValidator(parse_fraction), Field(gt=0, le=1)] = Field(
        default=0.99, description="SLO attainment asked for, such as 99 %"
    )
    metric: str = Field(default="attainment", description="what must keep a bound, if not attainment")
    at_most: float | None = Field(default=None, description="bound from above on another metric")
    at_least: float | None = Field(default=None, description="bound from below on another metric")
    tolerance: Tolerance = Field(default=0.02, description="relative; whole quantities are found exactly")
    given: Mapping[str, Any] = Field(default_factory=dict, description="fields that differ from the base case's")

    @model_validator(mode="after")
    def _one_bound(self) -> Self:
        bounds = (self.at_most is not None) + (self.at_least is not None)
        if self.metric == "attainment" and bounds:
            raise ValueError("attainment has a target; give target alone, or name another metric under metric")
        if self.metric != "attainment" and bounds != 1:
            raise ValueError(f"metric {self.metric} needs a bound; give one of at_most and at_least")
        if self.metric != "attainment" and "target" in self.model_fields_set:
            raise ValueError(f"target is for attainment; metric {self.metric} has at_most or at_least")
        return self


class _Ranged(QuestionBase):
    @model_validator(mode="after")
    def _ordered(self) -> Self:
        low, high = getattr(self, "low", None), getattr(self, "high", None)
        for name, value in (("low", low), ("high", high)):
            if isinstance(value, bool) or (isinstance(value, int | float) and not value > 0):
                raise ValueError(f"{name} must be a number > 0 (got {value})")
        if isinstance(low, int | float) and isinstance(high, int | float) and low > high:
            raise ValueError(f"expected low <= high (got {low} and {high})")
        return self


class _Devices(_Ranged):
    low: Annotated[StrictInt, Field(gt=0)] = Field(default=1, description="fewest that are tried")
    high: Annotated[StrictInt, Field(gt=0)] = Field(default=64, description="most that are tried")
    step: Annotated[StrictInt, Field(gt=0)] = Field(
        default=1, description="only multiples of it are tried, such as full nodes: fewer than one node is no cluster"
    )

    @model_validator(mode="after")
    def _holds_a_step(self) -> Self:
        if self.high < self.step:
            raise ValueError(f"step: {self.step} is more than high {self.high}; nothing would be tried")
        return self

    @property
    def ends(self) -> tuple[int, int]:
        """The fewest and the most that are tried, multiples of `step`."""
        return -(-self.low // self.step) * self.step, self.high // self.step * self.step


class FewestDevices(_Devices):
    """How few devices attain the target."""

    find: Literal["fewest devices"]


class _Scaled(_Ranged):
    low: Positive | None = Field(default=None, description="least that is tried; an eighth of the base case's")
    high: Positive | None = Field(default=None, description="most that is tried; eight times the base case's")


class HighestRate(_Scaled):
    """The highest rate that attains the target: requests per second, or a multiple of a trace's."""

    find: Literal["highest rate"]


class HighestCv(_Scaled):
    """The highest CV of inter-arrival times that attains the target; a multiple of the fitted ones for a trace."""

    find: Literal["highest cv"]


class TightestSlo(_Scaled):
    """The tightest SLO at which the target is attained: seconds where the case says slo, else an SLO scale."""

    find: Literal["tightest slo"]


class Extreme(_Ranged):
    """The highest or lowest value of any field that attains the target: ``find: {highest: PATH}``."""

    find: Literal["highest", "lowest"]
    field: str = Field(description="path of the field")
    low: int | float | str = Field(description="least that is tried")
    high: int | float | str = Field(description="most that is tried")


class CheapestCluster(_Devices):
    """The device type whose fewest devices cost least."""

    find: Literal["cheapest cluster"]
    devices: Annotated[tuple[str, ...], BeforeValidator(_tuple)] = Field(
        default=(), description="device types; the base case's if left out"
    )
    prices: Mapping[str, Annotated[float, Field(ge=0)]] = Field(
        default_factory=dict, description="device type -> price of one device-hour, where it is not the spec's"
    )

    @model_validator(mode="after")
    def _known(self) -> Self:
        twice = sorted({d for d in self.devices if self.devices.count(d) > 1})
        if twice:
            raise ValueError(f"devices: {twice[0]} is given twice")
        return self


class WhatBreaksFirst(QuestionBase):
    """Which factor's smallest change makes attainment fall below the target."""

    find: Literal["what breaks first"]
    factors: Annotated[tuple[Annotated[Factor, BeforeValidator(_factor)], ...], BeforeValidator(_tuple)] = Field(
        default=(), description="what is changed, one at a time; all that the case has if left out"
    )
    changes: Annotated[tuple[Change, ...], BeforeValidator(_tuple)] = Field(
        default=(0.1, 0.25), description="changes, up and down, in the table"
    )
    limit: Annotated[float, Field(gt=1)] = Field(default=4.0, description="greatest factor by which one is changed")
    replan: StrictBool = Field(default=False, description="plan anew for each change, rather than keep the base's plan")


class Headroom(QuestionBase):
    """How far measured traffic can grow before a plan that exists misses the target."""

    find: Literal["headroom"]
    plan: str | None = Field(default=None, description="a plan file; else each planner's plan for the traffic as it is")
    of: Annotated[tuple[Literal["rate", "cv", "slo"], ...], BeforeValidator(_tuple)] = Field(
        default=("rate", "cv", "slo"), description="what is scaled"
    )
    limit: Annotated[float, Field(gt=1)] = Field(default=8.0, description="greatest factor that is tried, either way")


KINDS = {
    "fewest devices": FewestDevices, "cheapest cluster": CheapestCluster, "highest rate": HighestRate,
    "highest cv": HighestCv, "tightest slo": TightestSlo, "what breaks first": WhatBreaksFirst, "headroom": Headroom,
}  # fmt: skip


def _normal(value: Any) -> Any:
    """``find`` in its plain form: a name in any spelling, or ``{highest: field}`` taken apart."""
    if isinstance(value, str):
        value = {"find": value}
    if not isinstance(value, Mapping):
        return value
    said = dict(cast("Mapping[str, Any]", value))
    find = said.get("find")
    if find is None:
        raise ValueError(f"find: missing; say what is asked, one of {', '.join(KINDS)}")
    if isinstance(find, Mapping):
        inner = {plain(str(key)): field for key, field in cast("Mapping[Any, Any]", find).items()}
        if len(inner) != 1 or not set(inner) <= {"highest", "lowest"} or "field" in said:
            raise ValueError(f"find: expected {{highest: FIELD}} or {{lowest: FIELD}} (got {dict(inner)})")
        ((said["find"], said["field"]),) = inner.items()
        return said
    name = plain(find) if isinstance(find, str) else find
    if name not in (*KINDS, "highest", "lowest"):
        raise _nearest("question", str(find), tuple(KINDS))
    said["find"] = name
    return said


Question = Annotated[
    FewestDevices | CheapestCluster | HighestRate | HighestCv | TightestSlo | Extreme | WhatBreaksFirst | Headroom,
    Field(discriminator="find"),
    BeforeValidator(_normal),
]
"""Any of the kinds, as a type that pydantic checks."""
