"""The order of what happens at one instant in LLM simulations."""

from __future__ import annotations

from ...clock import Clock

__all__ = ["ARRIVES", "DECIDES", "ENDS", "FAILS", "MOVES", "SCALES", "Clock"]

ENDS, FAILS, MOVES, ARRIVES, SCALES, DECIDES = range(1, 7)
"""SimPy priorities: at one instant iterations end, engines fail and come back, transfers end, requests arrive, engines
are added or taken away, and then engines decide. Deciding comes last so that a decision sees all that has happened, as
a real scheduler reads its queue before each step. Failing comes after ending so that tokens that are done are not lost.
"""
