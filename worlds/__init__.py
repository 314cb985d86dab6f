"""The worlds: one contract for all that can be planned, simulated and run. `registry` says which there are."""

from __future__ import annotations

from .registry import WORLDS, names, open_world, world, world_of_plan
from .world import CIRCUMSTANCE, Case, Circumstance, OpenWorld, Panel, World

__all__ = [
    "CIRCUMSTANCE", "WORLDS", "Case", "Circumstance", "OpenWorld", "Panel", "World", "names", "open_world", "world",
    "world_of_plan",
]  # fmt: skip
