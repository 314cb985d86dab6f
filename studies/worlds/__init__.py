"""The worlds that a study can be about. A later world plugs in with one module and one line in `WORLDS`."""

from __future__ import annotations

from .world import WORLDS, Case, Panel, World, world

__all__ = ["WORLDS", "Case", "Panel", "World", "world"]
