"""Training graphs: models as operators described by their loops."""

from __future__ import annotations

from .costs import CostModel, OperatorTimes, roofline
from .document import from_json, load_graph, save_graph, to_json
from .graph import Graph
from .memory import parameter_bytes
from .notation import Formula, parse
from .operator import DTYPE_BYTES, KINDS, Loop, Operator, Tensor

__all__ = [
    "DTYPE_BYTES", "KINDS", "CostModel", "Formula", "Graph", "Loop", "Operator", "OperatorTimes", "Tensor",
    "from_json", "load_graph", "parameter_bytes", "parse", "roofline", "save_graph", "to_json",
]  # fmt: skip
