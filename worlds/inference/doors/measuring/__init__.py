"""Planners that measure placements while they plan: the graph level of Collage, and stretches for graph libraries."""

from __future__ import annotations

from .choice import measured_choice
from .graph_level import op_level, searched
from .groups import named_groups
from .trials import Trials

__all__ = ["Trials", "measured_choice", "named_groups", "op_level", "searched"]
