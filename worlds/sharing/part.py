"""What the parts of sharing's files have in common: their base, and quantities with units."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from ...reprs import Shown
from ..file.units import parse_fraction, parse_gpu_seconds, parse_seconds
from ..limits import LONGEST_RESTART_S, MAX_DEVICES, MAX_FACTOR, MAX_SECONDS, MIN_FACTOR

__all__ = [
    "Factor", "Fraction", "GpuSeconds", "Gpus", "Part", "Restart", "Seconds", "Some", "SomeSeconds",
]  # fmt: skip


class Part(Shown, BaseModel):
    """A part of a file: frozen, no unknown keys, no NaN or infinity."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _some(entries: tuple[Any, ...]) -> tuple[Any, ...]:
    # pydantic's own min_length complains of entries that are wrong, too
    if not entries:
        raise ValueError("should have at least one entry (got none)")
    return entries


Some = AfterValidator(_some)
Fraction = Annotated[float, BeforeValidator(parse_fraction), Field(ge=0, le=1)]
Seconds = Annotated[float, BeforeValidator(parse_seconds), Field(ge=0, le=MAX_SECONDS)]
SomeSeconds = Annotated[float, BeforeValidator(parse_seconds), Field(gt=0, le=MAX_SECONDS)]
GpuSeconds = Annotated[float, BeforeValidator(parse_gpu_seconds), Field(gt=0, le=MAX_SECONDS * MAX_DEVICES)]
Restart = Annotated[float, BeforeValidator(parse_seconds), Field(ge=0, le=LONGEST_RESTART_S)]
Gpus = Annotated[int, Field(gt=0, le=MAX_DEVICES)]
Factor = Annotated[float, Field(ge=MIN_FACTOR, le=MAX_FACTOR)]
