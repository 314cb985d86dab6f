"""Torch modules that are trained: what graphs are traced from and the runtime is checked against."""

from __future__ import annotations

from .experts import MoE, top_k_gate
from .functions import FUNCTIONS, pointwise
from .transformer import GPT
from .vision import MlpNet, ResNet

__all__ = ["FUNCTIONS", "GPT", "MlpNet", "MoE", "ResNet", "pointwise", "top_k_gate"]
