"""The world of inference on mixed backends (Collage): one network, each of its operators where it runs fastest."""

from __future__ import annotations

__all__ = ["DOORS", "TITLE"]

TITLE = "One network for inference, its operators placed on several backends of this machine (Collage)."
"""What it is about, in a line; here, so that help texts need not load the world."""

DOORS = ("plan", "simulate", "run", "compare", "export", "measure")
"""What can be asked of it."""
