"""What a case of the inference world says: network, batch, backends, how fast it must be, planner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from ...reprs import Shown
from ..file.units import parse_seconds
from ..limits import MAX_BATCH, MAX_FACTOR, MAX_SECONDS, MIN_FACTOR
from ..world import CIRCUMSTANCE, Case

__all__ = ["InferenceCase", "InferencePlannerCase", "InferenceWorkloadCase"]

Seconds = Annotated[float, BeforeValidator(parse_seconds), Field(gt=0, le=MAX_SECONDS)]


def _listed(given: Any) -> Any:
    """``torch-onednn,onnxruntime`` in one word, as an axis of a study says it."""
    if isinstance(given, str):
        return tuple(name.strip() for name in given.split(","))
    return tuple(cast("list[Any]", given)) if isinstance(given, list) else given


class _Part(Shown, BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class InferenceWorkloadCase(_Part):
    """What the network is given at a time, and how fast it must answer."""

    slo_words: ClassVar[str] = "× the limit that is given"

    batch: int = Field(default=1, gt=0, le=MAX_BATCH, description="samples of one call; a placement is for one batch")
    slo: Seconds | None = Field(default=None, description="limit of one call, seconds; what attainment asks for")
    slo_scale: float = Field(default=1.0, ge=MIN_FACTOR, le=MAX_FACTOR, description="factor that multiplies slo")


class InferencePlannerCase(_Part):
    """Who plans: Collage's two levels, our dynamic programme over regions, or what they are compared with."""

    name: str = Field(default="collage", description="a planner's name: collage, collage-op, collage-segments, …")
    label: str = Field(default="", description="how tables call it; by default its name")
    options: Mapping[str, Any] = Field(default_factory=dict, description="options of the planner, by their names")

    @property
    def called(self) -> str:
        """What tables call it."""
        return self.label or self.name


class InferenceCase(Case):
    """One case of the inference world: a network at one batch, on the backends of this machine.

    What is drawn is the evolutionary search's; the operator level draws nothing.
    """

    model: Annotated[str, CIRCUMSTANCE] = Field(
        default="resnet-18", description="a network's name, or path/to/file.py:function of a torch module and inputs"
    )
    workload: Annotated[InferenceWorkloadCase, CIRCUMSTANCE] = InferenceWorkloadCase()
    backends: Annotated[tuple[str, ...], BeforeValidator(_listed)] = Field(
        default=("torch-onednn", "torch-jit"), description="backends that may be used, such as torch-onednn,onnxruntime"
    )
    costs: Annotated[str | None, CIRCUMSTANCE] = Field(
        default=None, description="file of measured costs (meshwright measure inference --out); else measured here"
    )
    planner: InferencePlannerCase = InferencePlannerCase()

    @field_validator("backends")
    @classmethod
    def _once_each(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        if not given:
            raise ValueError("should have at least one backend (got none)")
        if len(set(given)) < len(given):
            raise ValueError("should have each backend once")
        return given
