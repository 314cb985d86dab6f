"""Training graphs: models as operators described by their loops."""

from __future__ import annotations

from .build import Builder
from .build_branches import candle_uno, case_study, dlrm, mmt
from .costs import CostModel, OperatorTimes, roofline
from .document import from_json, load_graph, save_graph, to_json
from .graph import Graph
from .memory import parameter_bytes
from .notation import Formula, parse
from .operator import DTYPE_BYTES, KINDS, Loop, Operator, Tensor
from .structure import depths, differentiable, graph_cut, layer_bounds, leaders, reordered, repeats, signature
from .trace import from_torch
from .zoo import BRANCHES, PAPER_PARAMS, ZOO, build_graph, in_zoo, zoo_graph, zoo_module

__all__ = [
    "BRANCHES", "DTYPE_BYTES", "KINDS", "PAPER_PARAMS", "ZOO", "Builder", "CostModel", "Formula", "Graph", "Loop",
    "Operator", "OperatorTimes", "Tensor", "build_graph", "candle_uno", "case_study", "depths", "differentiable",
    "dlrm", "from_json", "from_torch", "graph_cut", "in_zoo", "layer_bounds", "leaders", "load_graph", "mmt",
    "parameter_bytes", "parse", "reordered", "repeats", "roofline", "save_graph", "signature", "to_json",
    "zoo_graph", "zoo_module",
]  # fmt: skip
