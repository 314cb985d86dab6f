"""What operators of training graphs compute, in torch: on all of their loops, or on one device's part of them.

`runtime.training` runs plans with it, `from_torch` holds a traced graph against its module with it. It imports torch:
`profiles.graph` imports it only where something is computed.
"""

from __future__ import annotations

from .loops import Axes, Comm, Local, join_loops, split_loops
from .operators import COMPUTE, compute, contraction_gradient
from .values import evaluate, make_input, make_parameter

__all__ = [
    "COMPUTE", "Axes", "Comm", "Local", "compute", "contraction_gradient", "evaluate", "join_loops", "make_input",
    "make_parameter", "split_loops",
]  # fmt: skip
