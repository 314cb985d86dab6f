"""Sharing for real: an arbiter service, and agents that train on slots of this machine's cores.

`run.run_sharing` is the door. `arbiter` holds the lease clock, its books and its service; `agent` the processes that
train; `messages` what they say to each other. `extender` is the same arbiter for pods of Kubernetes. `compare` holds a
real run against its simulation.
"""

from __future__ import annotations

from .agent.joining import join
from .agent.training import Trainer, trained
from .arbiter.lease_clock import Arbiter
from .arbiter.roster import Lost
from .arbiter.serving import Task, serve
from .choice import PolicyChoice
from .documents import load_world_document, save_world
from .extender.pods_arbiter import Extender
from .extender.service import remote_views, serve_extender
from .extender.task import ExtenderTask
from .options import RunOptions, total_steps
from .result import Measured, RealSharing
from .run import run_sharing

__all__ = [
    "Arbiter", "Extender", "ExtenderTask", "Lost", "Measured", "PolicyChoice", "RealSharing", "RunOptions", "Task",
    "Trainer", "join", "load_world_document", "remote_views", "run_sharing", "save_world", "serve", "serve_extender",
    "total_steps", "trained",
]  # fmt: skip
