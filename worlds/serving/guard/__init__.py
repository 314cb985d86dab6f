"""Serving as the gate sees it: placements kept, scored on traffic that no planner has seen, and told apart in words."""

from __future__ import annotations

from .decision import Decision, GroupRecord, Window
from .diff import describe
from .guard import ServingGuard

__all__ = ["Decision", "GroupRecord", "ServingGuard", "Window", "describe"]
