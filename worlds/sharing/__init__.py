"""The world of a shared cluster (Themis): many training apps, under a policy."""

from __future__ import annotations

__all__ = ["DOORS", "TITLE"]

TITLE = "Many training apps on one shared cluster, under a policy (Themis, Gandiva, Tiresias, …)."
"""What it is about, in a line; here, so that help texts need not load the world."""

DOORS = ("plan", "simulate", "run", "export")
"""What can be asked of it."""
