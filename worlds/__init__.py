"""The worlds that a study can be about. A later world plugs in with one module and one line in `WORLDS`."""

from __future__ import annotations

from .world import CIRCUMSTANCE, WORLDS, Case, Circumstance, Panel, World, world

__all__ = ["CIRCUMSTANCE", "WORLDS", "Case", "Circumstance", "Panel", "World", "world"]
