"""Parts of the models: projections and convolutions whose weights have one dimension for each loop."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

__all__ = ["Conv", "Projection", "Table", "at_least_float32"]


def at_least_float32(x: Tensor) -> Tensor:
    """Convert half precision to float32, in which losses are computed; other types stay as they are."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


class Projection(nn.Module):
    """``einsum(formula, x, weight) + bias``: a linear layer whose weight keeps heads, experts, … as dimensions.

    Parameters
    ----------
    formula : str
        As `torch.einsum` takes it, such as ``"bsh,hnd->bsnd"``.
    weight : sequence of int
        Shape of the weight.
    fan_in : int
        Number of products summed; weights are drawn from N(0, 1 / fan_in).
    bias : sequence of int, optional
        Shape of the bias; none: no bias.
    bias_view : sequence of int, optional
        Shape in which the bias is added, where that is another.
    """

    def __init__(
        self, formula: str, weight: Sequence[int], fan_in: int, bias: Sequence[int] = (),
        bias_view: Sequence[int] = (),
    ) -> None:  # fmt: skip
        super().__init__()
        self.formula = formula
        self.weight = nn.Parameter(torch.randn(*weight) / math.sqrt(fan_in))
        self.bias = nn.Parameter(torch.zeros(*bias)) if bias else None
        self.bias_view = tuple(bias_view)

    def forward(self, x: Tensor) -> Tensor:
        """Project."""
        y = torch.einsum(self.formula, x, self.weight)
        if self.bias is None:
            return y
        return y + (self.bias.view(self.bias_view) if self.bias_view else self.bias)


class Table(nn.Module):
    """Rows that are looked up (an embedding) or added (positions)."""

    def __init__(self, rows: int, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, hidden) * 0.02)  # GPT-2's initialisation

    def forward(self, ids: Tensor) -> Tensor:
        """The rows of these indices."""
        return nn.functional.embedding(ids, self.weight)


class Conv(nn.Module):
    """A square convolution without bias that keeps the side at stride 1, and its batch norm (``norm``).

    The norm takes the statistics of the batch that it sees and keeps no running averages.
    """

    def __init__(self, channels: int, out: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out, channels, kernel, kernel) / math.sqrt(channels * kernel * kernel))
        self.norm = nn.BatchNorm2d(out, track_running_stats=False)
        self.stride, self.padding = stride, kernel // 2

    def forward(self, x: Tensor) -> Tensor:
        """Convolve and normalise."""
        return self.norm(nn.functional.conv2d(x, self.weight, stride=self.stride, padding=self.padding))
