"""Plans that ran for real beside their simulations, and why the two differ."""

from .run import SLO_SCALES, Cell, Comparison, compare

__all__ = ["SLO_SCALES", "Cell", "Comparison", "compare"]
