"""Backends that run: capturing a module, compiling its parts, checking and measuring them, programs of several."""

from .capture import Captured, capture
from .flat import flat
from .keeping import capture_kept
from .measure import Course, GroupTime, MeasureOptions, Timing, profile
from .program import Group, Program, in_order
from .registry import BUILT_IN, DEFAULT, available, backend, backends, names
from .subgraph import subgraph
from .torch_eager import TorchNative, TorchNhwc, TorchOneDnn
from .torch_jit import TorchJit, TorchJitOptimized

__all__ = [
    "BUILT_IN",
    "DEFAULT",
    "Captured",
    "Course",
    "Group",
    "GroupTime",
    "MeasureOptions",
    "Program",
    "Timing",
    "TorchJit",
    "TorchJitOptimized",
    "TorchNative",
    "TorchNhwc",
    "TorchOneDnn",
    "available",
    "backend",
    "backends",
    "capture",
    "capture_kept",
    "flat",
    "in_order",
    "names",
    "profile",
    "subgraph",
]
