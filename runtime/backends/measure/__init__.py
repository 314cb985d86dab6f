"""Measuring what backends' groups cost: in their places, held against eager, in a process of its own."""

from .course import Course, GroupTime, Timing
from .options import MeasureOptions
from .profile import profile

__all__ = ["Course", "GroupTime", "MeasureOptions", "Timing", "profile"]
