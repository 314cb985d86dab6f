"""How near a drawn workload must come to the paper's own: one width for all ratios of Themis' figures.

The trace is not public. Over draws of the workload, ratios of two policies' figures differ by some 20 %: that is the
width. A ratio that is near to 1 needs another one, for 20 % of 1.08 would take in "no effect at all": half of what is
above 1. A smaller one holds partly, down to half of the paper's, where that is still an effect; a larger one is beyond
the paper's.
"""

from __future__ import annotations

from ...claims import Rule, between

__all__ = ["HALF", "WIDTH", "ratio"]

WIDTH, HALF = 0.2, 0.5
"""Relative tolerances: holds, holds partly."""

NEAR = 1.5
"""Below this, the width is `HALF` of what a ratio is above 1."""

LEAST = 1.005
"""Below this, a ratio is no effect."""


def ratio(paper: float) -> Rule:
    """The rule for "X times as much under another policy": two sides, more is beyond."""
    width = WIDTH * paper if paper >= NEAR else HALF * (paper - 1.0)
    low, high = round(paper - width, 3), round(paper + width, 3)
    return between(low, high, partly=(max(LEAST, round(HALF * paper, 3)), high), beyond="above")
