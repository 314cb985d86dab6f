"""How near to the paper's speedup ours must be: one width for all of Alpa's figures."""

from __future__ import annotations

from ..claims import Rule, between

__all__ = ["scaling", "speedup"]


def speedup(paper: float) -> Rule:
    """Within 30 % of the figure, but no more than half of the gain; partly from a quarter of the gain (40 % of it).

    Times here are of a cost model and theirs of V100s: the gain has to be there in about its size. More than that is
    beyond the paper's.
    """
    gain = paper - 1
    width = min(0.3 * paper, gain / 2)
    low = max(1 + gain / 4, 0.4 * paper)
    return between(round(paper - width, 3), round(paper + width, 3), partly=(round(low, 3), 2 * paper), beyond="above")


def scaling(least: float, partly: float) -> Rule:
    """For "linear scaling": as much above 1 as below; more than that is beyond."""
    return between(least, 2 - least, partly=(partly, 2 - partly), beyond="above")
