"""PipeDream (Narayanan et al., SOSP '19): replicated stages of a linearised graph."""

from __future__ import annotations

from .partition import PipeDreamPartition, PipeDreamStage, pipedream_partition
from .planner import pipedream
from .profile import PipeDreamProfile, ProfiledLayer

__all__ = [
    "PipeDreamPartition", "PipeDreamProfile", "PipeDreamStage", "ProfiledLayer", "pipedream", "pipedream_partition",
]  # fmt: skip
