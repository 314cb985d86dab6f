"""Sharing for real: an arbiter service and agents that train on slots of this machine's cores."""

from __future__ import annotations

from .arbiter import Arbiter
from .choice import PolicyChoice
from .documents import load_world_document, save_world
from .extender import Extender
from .extender_task import ExtenderTask
from .extending import remote_views, serve_extender
from .joining import join
from .options import RunOptions, total_steps
from .result import Measured, RealSharing
from .roster import Lost
from .run import run_sharing
from .serving import Task, serve
from .training import Trainer, trained

__all__ = [
    "Arbiter", "Extender", "ExtenderTask", "Lost", "Measured", "PolicyChoice", "RealSharing", "RunOptions", "Task",
    "Trainer", "join", "load_world_document", "remote_views", "run_sharing", "save_world", "serve", "serve_extender",
    "total_steps", "trained",
]  # fmt: skip
