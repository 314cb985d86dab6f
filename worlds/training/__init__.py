"""The world of training: one model on a cluster, planned by any planner of training, one iteration simulated."""

from __future__ import annotations

__all__ = ["DOORS", "TITLE"]

TITLE = "One model trained on a cluster, in stages over meshes of devices (Alpa, TeraPipe, GraphPipe, Megatron)."
"""What it is about, in a line; here, so that help texts need not load the world."""

DOORS = ("plan", "simulate", "run", "compare", "measure", "export")
"""What can be asked of it."""
