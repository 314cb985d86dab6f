"""The world of one-shot serving (AlpaServe): groups of pipeline stages on a cluster."""

from __future__ import annotations

__all__ = ["DOORS", "TITLE"]

TITLE = "Many models served one request at a time by groups of pipeline stages (AlpaServe)."
"""What it is about, in a line; here, so that help texts need not load the world."""

DOORS = ("plan", "simulate", "run", "compare", "measure", "export")
"""What can be asked of it."""
