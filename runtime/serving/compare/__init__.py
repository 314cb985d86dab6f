"""Plans that ran for real beside their simulations, and why the two differ."""

from .cells import Cell, Comparison
from .run import SLO_SCALES, compare

__all__ = ["SLO_SCALES", "Cell", "Comparison", "compare"]
