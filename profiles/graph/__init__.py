"""Training graphs: models as operators described by their loops."""

from __future__ import annotations

from .document import from_json, load_graph, save_graph, to_json
from .graph import Graph
from .notation import Formula, parse
from .operator import DTYPE_BYTES, KINDS, Loop, Operator, Tensor

__all__ = [
    "DTYPE_BYTES", "KINDS", "Formula", "Graph", "Loop", "Operator", "Tensor", "from_json", "load_graph", "parse",
    "save_graph", "to_json",
]  # fmt: skip
