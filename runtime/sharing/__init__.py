"""Sharing for real: an arbiter service and agents that train on slots of this machine's cores."""

from __future__ import annotations

from .arbiter import Arbiter, Lost
from .options import RunOptions, total_steps
from .result import Measured, RealSharing
from .run import run_sharing
from .training import Trainer, trained

__all__ = [
    "Arbiter", "Lost", "Measured", "RealSharing", "RunOptions", "Trainer", "run_sharing", "total_steps", "trained",
]  # fmt: skip
