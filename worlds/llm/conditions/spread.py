"""How the times of an engine's steps vary, as a case says it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from ...limits import MAX_FACTOR, MAX_SECONDS, MIN_FACTOR
from ..part import Part

__all__ = ["StepSpreadCase"]

Factor = Annotated[float, Field(ge=MIN_FACTOR, le=MAX_FACTOR)]


class StepSpreadCase(Part):
    """How the times of an engine's steps vary, said by hand: factors on their cost."""

    visits: tuple[Factor, ...] = Field(
        default=(1.0,),
        min_length=1,
        description="quantiles of the factor that each step draws anew, at (k + 1/2) / n, ascending, ratios",
    )
    prompts: tuple[Factor, ...] = Field(
        default=(), description="the same of steps that compute prompt tokens; if left out, as others, ratios"
    )
    runs: tuple[Factor, ...] = Field(
        default=(1.0,),
        min_length=1,
        description="quantiles of a factor that hangs together in time, at (k + 1/2) / n, ascending, ratios",
    )
    correlation: float = Field(
        default=0.0, ge=0, le=MAX_SECONDS, description="seconds over which that factor's correlation falls to 1/e"
    )
    level: float = Field(
        default=0.0, ge=0, lt=0.5, description="how well the mean is known: a standard deviation, a ratio"
    )

    @model_validator(mode="after")
    def _ordered(self) -> StepSpreadCase:
        for name in ("visits", "prompts", "runs"):
            if list(getattr(self, name)) != sorted(getattr(self, name)):
                raise ValueError(f"{name}: expected quantiles in ascending order (got {list(getattr(self, name))})")
        if len(self.runs) > 1 and not self.correlation:
            raise ValueError("runs: needs correlation > 0; factors that do not hang together go into visits")
        return self
