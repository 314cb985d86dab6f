"""Measuring: the stages of a plan, or the token slices of a model."""

from __future__ import annotations

from ...door import Answer, Asked
from .slices import measured_slices
from .stages import measured_stages

__all__ = ["measured"]


def measured(asked: Asked) -> Answer:
    """Of a plan its stages, into a plan; of a model its token slices, into a profile for TeraPipe."""
    return measured_stages(asked) if asked.plans else measured_slices(asked)
