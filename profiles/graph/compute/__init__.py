"""Compute the operators of training graphs in torch: whole, or one device's part of their loops.

Begin with `operators` (`compute`) and `loops` (`Local`: an operator as one device runs it). The training runtime runs
plans with this room, and `from_torch` checks a traced graph against its module. It needs torch, so `profiles.graph`
imports it only when something is computed.
"""

from __future__ import annotations

from .loops import Axes, Comm, Local, join_loops, split_loops
from .operators import COMPUTE, compute, contraction_gradient
from .values import evaluate, make_input, make_parameter

__all__ = [
    "COMPUTE", "Axes", "Comm", "Local", "compute", "contraction_gradient", "evaluate", "join_loops", "make_input",
    "make_parameter", "split_loops",
]  # fmt: skip
