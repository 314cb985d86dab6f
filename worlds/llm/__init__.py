"""The world of LLM serving: engines on a cluster, scored token by token."""

from __future__ import annotations

__all__ = ["DOORS", "TITLE"]

TITLE = "Language models served token by token by engines on a cluster (vLLM, Orca, Sarathi, …)."
"""What it is about, in a line; here, so that help texts need not load the world."""

DOORS = ("plan", "simulate", "run", "compare", "measure", "export")
"""What can be asked of it."""
