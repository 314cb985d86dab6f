"""Alpa's inter-operator pass (§5): layers, submeshes, stages."""

from __future__ import annotations

from .clustering import cluster_operators, default_layers
from .pricing.pricer import Pricer, StagePlan
from .pricing.table import Prices
from .shapes import logical_shapes, submesh_shapes

__all__ = [
    "Pricer", "Prices", "StagePlan", "cluster_operators", "default_layers", "logical_shapes", "submesh_shapes",
]  # fmt: skip
