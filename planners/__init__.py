"""Planners: who decides which devices form a group and which models it holds. One folder per planner family."""

from __future__ import annotations

from . import alpaserve

__all__ = ["alpaserve"]
