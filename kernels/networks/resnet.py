"""ResNet-18 and -50, ResNeXt-50, and the 3-D ResNet-50 of video: one network of residual blocks, in 2 or 3 dimensions.

He et al. 2016, Table 1; Xie et al. 2017, Table 1 (32 × 4d); Hara et al. 2018, Table 1 (shortcut B). A block changes
resolution in its (first) 3 × 3 convolution, as torchvision's and Hara's code do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

__all__ = ["Basic", "Bottleneck", "ResNet"]

CONV: dict[int, Any] = {2: nn.Conv2d, 3: nn.Conv3d}
NORM: dict[int, Any] = {2: nn.BatchNorm2d, 3: nn.BatchNorm3d}


class Basic(nn.Module):
    """Two 3 × 3 convolutions, and what is added to them."""

    def __init__(self, space: int, channels: int, width: int, out: int, stride: int, groups: int) -> None:
        super().__init__()
        del width
        conv, norm = CONV[space], NORM[space]
        self.conv1 = conv(channels, out, 3, stride, 1, groups=groups, bias=False)
        self.norm1 = norm(out)
        self.conv2 = conv(out, out, 3, 1, 1, groups=groups, bias=False)
        self.norm2 = norm(out)
        self.norm2.last_of_branch = True
        self.project = _projection(space, channels, out, stride)

    def forward(self, x: Tensor) -> Tensor:
        """The block."""
        y = functional.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        return functional.relu(y + (x if self.project is None else self.project(x)))


class Bottleneck(nn.Module):
    """1 × 1, 3 × 3 (in groups) and 1 × 1 convolutions, and what is added to them."""

    def __init__(self, space: int, channels: int, width: int, out: int, stride: int, groups: int) -> None:
        super().__init__()
        conv, norm = CONV[space], NORM[space]
        self.conv1 = conv(channels, width, 1, bias=False)
        self.norm1 = norm(width)
        self.conv2 = conv(width, width, 3, stride, 1, groups=groups, bias=False)
        self.norm2 = norm(width)
        self.conv3 = conv(width, out, 1, bias=False)
        self.norm3 = norm(out)
        self.norm3.last_of_branch = True
        self.project = _projection(space, channels, out, stride)

    def forward(self, x: Tensor) -> Tensor:
        """The block."""
        y = functional.relu(self.norm1(self.conv1(x)))
        y = functional.relu(self.norm2(self.conv2(y)))
        y = self.norm3(self.conv3(y))
        return functional.relu(y + (x if self.project is None else self.project(x)))


def _projection(space: int, channels: int, out: int, stride: int) -> nn.Sequential | None:
    if stride == 1 and channels == out:
        return None
    return nn.Sequential(CONV[space](channels, out, 1, stride, bias=False), NORM[space](out))


class ResNet(nn.Module):
    """A residual network that gives class scores.

    Parameters
    ----------
    blocks : sequence of int
        Residual blocks of every stage.
    bottleneck : bool
        Whether blocks are bottlenecks, whose results have four times the stage's channels.
    space : {2, 3}
        Dimensions: 2 of images, 3 of clips (frames first).
    base, classes : int
        Channels of the first stage, doubled by each; classes.
    groups, group_width : int
        Groups of the 3 × 3 convolution, and channels of one where `base` is 64; one group: as wide as the stage.
    """

    def __init__(
        self, *, blocks: Sequence[int], bottleneck: bool, space: int = 2, base: int = 64, classes: int = 1000,
        groups: int = 1, group_width: int = 64,
    ) -> None:  # fmt: skip
        super().__init__()
        self.space = space
        # Clips keep their frames in the first convolution (Hara et al. 2018).
        self.stem = CONV[space](3, base, 7, 2 if space == 2 else (1, 2, 2), 3, bias=False)
        self.norm = NORM[space](base)
        stages, channels = list[nn.Module](), base
        for stage, count in enumerate(blocks):
            chain, wide = list[nn.Module](), base * 2**stage
            out = 4 * wide if bottleneck else wide
            for k in range(count):
                kind = Bottleneck if bottleneck else Basic
                width = wide if groups == 1 else wide * group_width // 64 * groups
                chain.append(kind(space, channels, width, out, 2 if stage and k == 0 else 1, groups))
                channels = out
            stages.append(nn.Sequential(*chain))
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(channels, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Scores of every class, ``[batch, classes]``."""
        x = functional.relu(self.norm(self.stem(images)))
        pools: dict[int, Any] = {2: functional.max_pool2d, 3: functional.max_pool3d}
        x = self.stages(pools[self.space](x, 3, 2, 1))
        means: dict[int, Any] = {2: functional.adaptive_avg_pool2d, 3: functional.adaptive_avg_pool3d}
        return self.head(means[self.space](x, 1).flatten(1))
