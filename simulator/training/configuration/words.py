"""Words that a configuration may say, and the codes by which columns hold them."""

from __future__ import annotations

__all__ = [
    "CONTEXT", "DUALPIPE", "ONE_F_ONE_B", "RECOMPUTE", "SCHEDULES", "WORDS", "ZB_H1", "ZB_V",
]  # fmt: skip

RECOMPUTE = ("none", "selective", "full", "chosen")
CONTEXT = ("ring", "all-to-all")
SCHEDULES = ("1f1b", "zb-h1", "dualpipe", "zb-v")
ONE_F_ONE_B, ZB_H1, DUALPIPE, ZB_V = range(len(SCHEDULES))
WORDS: dict[str, tuple[str, ...]] = {"recompute": RECOMPUTE, "context": CONTEXT, "schedule": SCHEDULES}
"""Columns of words, and what each may say; they are held as indices."""
