"""Random weights and statistics from a seed, such that numbers neither vanish nor blow up on their way through."""

from __future__ import annotations

import math

import torch
from torch import nn

__all__ = ["fill"]

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
SPREAD = 0.1
"""Deviation of biases, and of the scales and means of norms around 1 and 0: no channel equals another, so that a graph
that mixes up two is found out. A guess."""

BRANCH = 0.3
"""Scale of the last norm of a residual branch: sums of dozens of blocks stay near 1. A guess."""


def fill(module: nn.Module, seed: int) -> nn.Module:
    """Draw all parameters and buffers of a module anew, in float32 on the CPU; it is left in evaluation mode.

    Weights are normal with variance 2 / fan-in before a convolution's ReLU (He et al. 2015) and 1 / fan-in in linear
    layers, where fan-in is the number of products in one element of the result. Statistics of batch norms are near
    those of such activations: mean 0, variance 1. A batch norm with the attribute ``last_of_branch`` is scaled down.

    Parameters
    ----------
    module : torch.nn.Module
        Of convolutions, linear layers, embeddings, batch and layer norms.
    seed : int
        Of the generator. The same seed gives the same bytes.

    Raises
    ------
    TypeError
        If a part of another kind has parameters of its own.
    """
    draw = torch.Generator().manual_seed(seed)

    def normal(x: torch.Tensor, centre: float, deviation: float) -> None:
        x.copy_(centre + deviation * torch.randn(x.shape, generator=draw))

    with torch.no_grad():
        for name, part in module.named_modules():
            own = [*part.parameters(recurse=False), *part.buffers(recurse=False)]
            if isinstance(part, NORMS):
                normal(part.weight, 1.0, SPREAD)
                part.weight.mul_(BRANCH if getattr(part, "last_of_branch", False) else 1.0)
                normal(part.bias, 0.0, SPREAD)
                assert part.running_mean is not None
                assert part.running_var is not None
                normal(part.running_mean, 0.0, SPREAD)
                part.running_var.copy_(1.0 + SPREAD * torch.rand(part.running_var.shape, generator=draw))
            elif isinstance(part, nn.LayerNorm):
                normal(part.weight, 1.0, SPREAD)
                normal(part.bias, 0.0, SPREAD)
            elif isinstance(part, (nn.Conv2d, nn.Conv3d, nn.ConvTranspose2d, nn.Linear)):
                normal(part.weight, 0.0, math.sqrt(_gain(part) / _fan_in(part)))
                if part.bias is not None:
                    normal(part.bias, 0.0, SPREAD)
            elif isinstance(part, nn.Embedding):
                normal(part.weight, 0.0, 1.0)
            elif own:
                raise TypeError(f"fill: {name or 'the module'}: no weights are known for {type(part).__name__}")
    return module.eval()


def _gain(part: nn.Module) -> float:
    return 1.0 if isinstance(part, nn.Linear) else 2.0


def _fan_in(part: nn.Conv2d | nn.Conv3d | nn.ConvTranspose2d | nn.Linear) -> float:
    """Products in one element of the result."""
    if isinstance(part, nn.ConvTranspose2d):  # of the kernel's places only one in stride × stride meets an input
        return part.in_channels / part.groups * math.prod(part.kernel_size) / math.prod(part.stride)
    return part.weight[0].numel()
