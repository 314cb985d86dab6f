"""MobileNetV2: inverted residuals with linear bottlenecks (Sandler et al. 2018, Table 2, width 1)."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

__all__ = ["MobileNetV2"]

STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""Expansion, channels, blocks and first stride of every stage."""


class Rectified(nn.Module):
    """A convolution, its batch norm and ReLU6."""

    def __init__(self, channels: int, out: int, kernel: int, stride: int, groups: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, out, kernel, stride, kernel // 2, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(out)

    def forward(self, x: Tensor) -> Tensor:
        """Convolve, normalise, clip."""
        return functional.relu6(self.norm(self.conv(x)))


class Inverted(nn.Module):
    """Expand, convolve each channel, project; with what went in added where shapes are the same."""

    def __init__(self, channels: int, out: int, expansion: int, stride: int) -> None:
        super().__init__()
        wide = channels * expansion
        self.expand = Rectified(channels, wide, 1, 1, 1) if expansion > 1 else None
        self.depthwise = Rectified(wide, wide, 3, stride, wide)
        self.project = nn.Conv2d(wide, out, 1, bias=False)
        self.norm = nn.BatchNorm2d(out)
        self.adds = stride == 1 and channels == out

    def forward(self, x: Tensor) -> Tensor:
        """The block."""
        y = x if self.expand is None else self.expand(x)
        y = self.norm(self.project(self.depthwise(y)))
        return x + y if self.adds else y


class MobileNetV2(nn.Module):
    """MobileNetV2 that gives class scores.

    Parameters
    ----------
    classes : int
        Classes.
    """

    def __init__(self, *, classes: int = 1000) -> None:
        super().__init__()
        self.stem = Rectified(3, 32, 3, 2, 1)
        blocks, channels = list[nn.Module](), 32
        for expansion, out, count, stride in STAGES:
            for k in range(count):
                blocks.append(Inverted(channels, out, expansion, stride if k == 0 else 1))
                channels = out
        self.blocks = nn.Sequential(*blocks)
        self.last = Rectified(channels, 1280, 1, 1, 1)
        self.head = nn.Linear(1280, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Scores of every class, ``[batch, classes]``."""
        x = self.last(self.blocks(self.stem(images)))
        return self.head(functional.adaptive_avg_pool2d(x, 1).flatten(1))
