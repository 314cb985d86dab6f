"""Torch modules that are trained: what graphs are traced from and the runtime is checked against."""

from __future__ import annotations

from .experts import MoE, top_k_gate
from .transformer import GPT
from .vision import MlpNet, ResNet

__all__ = ["GPT", "MlpNet", "MoE", "ResNet", "top_k_gate"]
