"""The answer of the LLM planner as one HTML page."""

from .html import page
from .told import told

__all__ = ["page", "told"]
