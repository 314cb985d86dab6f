"""Placements judged over draws of what happens: `judge` says what a state attains in them, `search` finds the best."""

from __future__ import annotations

from .judge import DrawnConditions, variation_of
from .search import plan_over_draws

__all__ = ["DrawnConditions", "plan_over_draws", "variation_of"]
