"""Questions: the extreme value of a field that still attains a target."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["Question"]


class Question(BaseModel):
    """What a study asks."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    find: str
    target: float = 0.99
