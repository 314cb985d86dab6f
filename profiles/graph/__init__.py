"""Graphs of training and of inference: models as operators that are described by their loops.

Begin with `Graph` and `Operator`, and with `zoo_graph` (known models) or `from_torch` (a module of one's own).
`notation` explains the formulas of operators. The rooms: `models` builds the known graphs, `trace` makes graphs from
torch modules, `costs` prices operators (`roofline`), and `compute` runs them. `structure` and `series_parallel` answer
planners' questions.
"""

from __future__ import annotations

from .costs.model import CostModel, OperatorTimes, roofline
from .document import from_json, load_graph, save_graph, to_json
from .graph import Graph
from .memory import parameter_bytes
from .models.branches import DLRM, MMT, CandleUno, CaseStudy
from .models.builder import Builder, Model
from .networks import INFERENCE, network_of
from .notation import Formula, parse
from .operator import DTYPE_BYTES, KINDS, Loop, Operator, Tensor
from .series_parallel import Leaf, Parallel, Series, SPTree, is_series_parallel, leaves, operators_of, sp_tree
from .structure import (
    check_loss,
    depths,
    differentiable,
    graph_cut,
    layer_bounds,
    leaders,
    reordered,
    repeats,
    signature,
)
from .token_flow import TokenFlow, token_flow
from .trace.module import from_torch
from .trace.program import Part, Program, calls, inference_program
from .zoo import BRANCHES, PAPER_PARAMS, ZOO, build_graph, in_zoo, zoo_graph, zoo_module

__all__ = [
    "BRANCHES", "DLRM", "DTYPE_BYTES", "INFERENCE", "KINDS", "MMT", "PAPER_PARAMS", "ZOO", "Builder", "CandleUno",
    "CaseStudy", "CostModel", "Formula", "Graph", "Leaf", "Loop", "Model", "Operator",
    "OperatorTimes", "Parallel", "Part", "Program", "SPTree", "Series", "Tensor", "TokenFlow",
    "build_graph", "calls", "check_loss", "depths", "differentiable", "from_json", "from_torch", "graph_cut",
    "in_zoo", "inference_program",
    "is_series_parallel", "layer_bounds", "leaders", "leaves", "load_graph", "network_of", "operators_of",
    "parameter_bytes", "parse", "reordered", "repeats", "roofline", "save_graph", "signature", "sp_tree", "to_json",
    "token_flow", "zoo_graph", "zoo_module",
]  # fmt: skip
