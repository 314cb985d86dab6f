"""Planners that measure placements while they plan: the graph level of Collage, and stretches for graph libraries."""

from __future__ import annotations

from .choice import measured_choice

__all__ = ["measured_choice"]
