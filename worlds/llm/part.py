"""What every part of a case of the LLM world is."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from ...reprs import Shown

__all__ = ["Part"]


class Part(Shown, BaseModel):
    """A part of a case: nothing unknown in it, never changed, no infinite number."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
