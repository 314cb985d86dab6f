"""Piper (Tarnawski et al., NeurIPS '21): stages as differences of downsets."""

from __future__ import annotations

from .instance import PiperInstance, PiperNode, PiperOption
from .partition import PiperPartition, piper_partition, piper_value
from .planner import piper
from .problem import PiperStage

__all__ = [
    "PiperInstance", "PiperNode", "PiperOption", "PiperPartition", "PiperStage", "piper", "piper_partition",
    "piper_value",
]  # fmt: skip
