"""Torch modules for training. Training graphs are traced from them, and the training runtime is checked against them.

`transformer` (GPT), `experts` (GShard's mixture of experts) and `vision` (Wide-ResNet, a perceptron) are the models,
`parts` their layers, and `functions` the element-wise functions by the names that training graphs use.
"""

from __future__ import annotations

from .experts import MoE, top_k_gate
from .functions import FUNCTIONS, pointwise
from .transformer import GPT
from .vision import MlpNet, ResNet

__all__ = ["FUNCTIONS", "GPT", "MlpNet", "MoE", "ResNet", "pointwise", "top_k_gate"]
