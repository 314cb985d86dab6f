"""`StudyDocument`: the keys of a study file that are the same for every world, as they are written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema, model_validator

from ...reprs import Shown
from ...worlds import WORLDS
from ...worlds.file.errors import Location, explain
from ...worlds.file.units import parse_fraction
from ...worlds.limits import MAX_SEED
from ..questions.kinds import Question

__all__ = ["VERSION", "LatinHypercubeEntry", "RangeEntry", "StudyDocument", "read_form"]

VERSION = 1

Quantity = int | float | str
"""A number, or text with a unit such as ``13 GiB``."""


POINTS = {"type": "array", "minItems": 1, "items": {"type": "object", "minProperties": 1}}


class _Entry(Shown, BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class RangeEntry(_Entry):
    """An axis from one value to another."""

    start: Quantity = Field(alias="from", description="first value")
    to: Quantity = Field(description="last value; with a step, the largest that a value may be")
    points: Annotated[int, Field(ge=2)] | None = Field(default=None, description="number of values, the ends included")
    step: Quantity | None = Field(default=None, description="difference between values; linear scale only")
    scale: Literal["linear", "log"] = Field(default="linear", description="equal differences, or equal ratios")

    @model_validator(mode="after")
    def _one_way(self) -> RangeEntry:
        if self.points is not None and self.step is not None:
            raise ValueError("give one of points and step")
        if self.step is not None and self.scale == "log":
            raise ValueError("a log scale has no step; give points")
        return self


class LatinHypercubeEntry(_Entry):
    """A random sample that covers each axis evenly."""

    latin_hypercube: int = Field(gt=0, le=1_000_000, description="number of combinations")


class StudyDocument(Shown, BaseModel):
    """What a study says beside its base case, whose keys stand next to these."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    study: int = Field(description="version of this form: 1")
    name: str = Field(default="", description="what the report calls it; the file's name if left out")
    world: str = Field(default=next(iter(WORLDS)), description="what is simulated")
    planners: tuple[str | Mapping[str, Any], ...] = Field(
        default=("alpaserve",), description="who plans: names, or mappings with name, label, options, plan, plan_on, …"
    )
    axes: Mapping[str, tuple[Any, ...] | RangeEntry] = Field(
        default_factory=dict, description="field (its path, or its unique last word) -> list of values, or a range"
    )
    design: Literal["grid", "list"] | LatinHypercubeEntry = Field(
        default="grid", description="which combinations of the axes' values: all, one after another, or a sample"
    )
    points: Annotated[tuple[Any, ...], WithJsonSchema(POINTS)] | None = Field(
        default=None, description="the combinations themselves, each field -> value; instead of axes and design"
    )
    question: Question | None = Field(default=None, description="what is asked")
    questions: tuple[Question, ...] = Field(default=(), description="what is asked, several")
    replications: int = Field(default=1, ge=1, description="draws of every point; intervals need two or more")
    seed: int = Field(
        default=0, ge=0, le=MAX_SEED, description="seed of the first replication; the others count up from it"
    )
    confidence: Annotated[float, BeforeValidator(parse_fraction), Field(gt=0, lt=1)] = Field(
        default=0.95, description="coverage of intervals: 0.95, or 95 %"
    )


def read_form(data: Mapping[str, Any], report: Callable[[Location, str], None]) -> StudyDocument:
    """The keys that are the same for every world; those that are wrong are reported, and as if left out."""
    if "study" not in data:
        report(("study",), f"is missing; write study: {VERSION}, the version of this form")
    elif type(data["study"]) is not int or data["study"] != VERSION:
        report(("study",), f"this Meshwright reads version {VERSION} (got {data['study']!r})")
    said: dict[str, Any] = {k: v for k, v in data.items() if k in StudyDocument.model_fields}
    said["study"] = VERSION
    try:
        return StudyDocument.model_validate_json(json.dumps(said), strict=True)
    except ValidationError as error:
        wrong = explain(error, StudyDocument, said)
    for loc, what in wrong:
        if loc[0] == "axes" and len(loc) == 2 and what.startswith("should be a list"):
            got = what[what.find(" (got") :].partition("; write")[0]
            what = f"should be a list of values, or a range such as {{from: 1, to: 8, points: 8}}{got}"
        if loc == ("design",):
            what = f"{what}; write grid, list, or {{latin_hypercube: 100}}"
        report(loc, what)
        key, *inner = loc
        if key == "axes" and inner:
            said["axes"] = {name: entry for name, entry in said["axes"].items() if name != inner[0]}
        else:
            said.pop(str(key), None)
    return StudyDocument.model_validate_json(json.dumps(said), strict=True)
