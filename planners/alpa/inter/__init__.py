"""Alpa's inter-operator pass (§5): operators become layers, layers become stages, and stages get submeshes.

Begin with `search` (`Search`: over numbers of microbatches). It clusters operators (`clustering`), prices every run of
layers on every submesh (`shapes`, the room `pricing`), chooses the stages (`choose`, with `interleave`, `linked` and
`epsilon` for variants of the programme), and writes the plan (`build`, `assemble`).
"""

from __future__ import annotations

from .clustering import cluster_operators, default_layers
from .pricing.pricer import Pricer, StagePlan
from .pricing.table import Prices
from .shapes import logical_shapes, submesh_shapes

__all__ = [
    "Pricer", "Prices", "StagePlan", "cluster_operators", "default_layers", "logical_shapes", "submesh_shapes",
]  # fmt: skip
