"""`SpreadCase`: how times vary, as a case says it."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ..profiles.spread import Spread
from ..reprs import Shown
from .limits import MAX_FACTOR, MAX_SECONDS, MIN_FACTOR

__all__ = ["SpreadCase"]

Scale = Annotated[float, Field(ge=MIN_FACTOR, le=MAX_FACTOR)]


class SpreadCase(Shown, BaseModel):
    """How times vary, said by hand: factors on what the profile says."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    visits: tuple[Scale, ...] = Field(
        default=(1.0,),
        min_length=1,
        description="quantiles of the factor that each visit draws anew, at (k + 1/2) / n, ascending, ratios",
    )
    runs: tuple[Scale, ...] = Field(
        default=(1.0,),
        min_length=1,
        description="quantiles of a factor that hangs together in time, at (k + 1/2) / n, ascending, ratios",
    )
    correlation: float = Field(
        default=0.0, ge=0, le=MAX_SECONDS, description="seconds over which that factor's correlation falls to 1/e"
    )

    @model_validator(mode="after")
    def _ordered(self) -> SpreadCase:
        for name in ("visits", "runs"):
            if list(getattr(self, name)) != sorted(getattr(self, name)):
                raise ValueError(f"{name}: expected quantiles in ascending order (got {list(getattr(self, name))})")
        if len(self.runs) > 1 and not self.correlation:
            raise ValueError("runs: needs correlation > 0; factors that do not hang together go into visits")
        return self

    def spread(self) -> Spread:
        """As simulators take it."""
        return Spread(visits=self.visits, runs=self.runs, correlation_s=self.correlation)
