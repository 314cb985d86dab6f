"""Piper (Tarnawski et al., NeurIPS '21): pipelines whose stages are differences of downsets of the graph.

There are two ways in. `planner` (`piper`) plans a training graph on the same costs as GraphPipe, to compare the two.
`partition` (`piper_partition`) is the authors' own planner, with tensor parallelism and recomputation, on the authors'
own inputs (`instance`, `problem`, `kernel`). `downsets` counts and lists downsets for both.
"""

from __future__ import annotations

from .instance import PiperInstance, PiperNode, PiperOption
from .partition import PiperPartition, piper_partition, piper_value
from .planner import piper
from .problem import PiperStage

__all__ = [
    "PiperInstance", "PiperNode", "PiperOption", "PiperPartition", "PiperStage", "piper", "piper_partition",
    "piper_value",
]  # fmt: skip
