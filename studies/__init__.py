"""Studies: what-if questions and sweeps over simulated worlds, on one machine or many.

A `Study` says a base case, what varies and what is asked; `Study.run` evaluates its points and gives a tidy frame;
a `Session` is the same turned inside out, for one's own optimiser.
"""

from __future__ import annotations

from ..worlds.outcome import Outcome
from .point import Point
from .session import Session
from .study import Study, load

__all__ = ["Outcome", "Point", "Session", "Study", "load"]
