"""Wide-ResNet and a plain perceptron, as the zoo's graphs have them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from .parts import Conv, Projection, at_least_float32

__all__ = ["Bottleneck", "MlpNet", "ResNet"]


class Bottleneck(nn.Module):
    """1 x 1 to `c` channels, 3 x 3 to ``c · width``, 1 x 1 to ``4 c``, and what is added to it."""

    def __init__(self, channels: int, c: int, width: int, stride: int, first: bool) -> None:
        super().__init__()
        self.conv1 = Conv(channels, c, 1, 1)
        self.conv2 = Conv(c, c * width, 3, stride)
        self.conv3 = Conv(c * width, 4 * c, 1, 1)
        self.project = Conv(channels, 4 * c, 1, stride) if first else None

    def forward(self, x: Tensor) -> Tensor:
        """The block."""
        y = self.conv3(self.conv2(self.conv1(x).relu()).relu())
        return (y + (x if self.project is None else self.project(x))).relu()


class ResNet(nn.Module):
    """A ResNet of bottleneck blocks; see `meshwright.profiles.graph.models.vision.ResNet`.

    Parameters
    ----------
    blocks : sequence of int
        Bottleneck blocks of every stage.
    base, width, image, classes, stem : int
        Base channel, width factor, side of the image (not looked at), classes, side of the first kernel.
    """

    def __init__(
        self, *, blocks: Sequence[int], base: int, width: int, image: int = 224, classes: int = 1024, stem: int = 7
    ) -> None:
        super().__init__()
        del image
        self.stem, self.halves = Conv(3, base, stem, 2 if stem > 3 else 1), stem > 3
        stages, channels = list[nn.Module](), base
        for stage, count in enumerate(blocks):
            c, chain = base * 2**stage, list[nn.Module]()
            for k in range(count):
                chain.append(Bottleneck(channels, c, width, 2 if stage and k == 0 else 1, k == 0))
                channels = 4 * c
            stages.append(nn.Sequential(*chain))
        self.stages = nn.Sequential(*stages)
        self.head = Projection("bc,ck->bk", (channels, classes), channels, (classes,))

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """Mean cross entropy of the labels."""
        x = self.stem(images).relu()
        if self.halves:
            x = nn.functional.max_pool2d(x, 3, 2, 1)
        return nn.functional.cross_entropy(at_least_float32(self.head(self.stages(x).mean((2, 3)))), labels)


class MlpNet(nn.Module):
    """A perceptron: `layers` projections with relu between."""

    def __init__(self, *, layers: int, hidden: int, features: int, classes: int) -> None:
        super().__init__()
        sizes = [features, *[hidden] * (layers - 1), classes]
        self.layers = nn.ModuleList(Projection("bh,hf->bf", (a, b), a, (b,)) for a, b in pairwise(sizes))

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """Mean cross entropy of the labels."""
        x = features
        for layer in self.layers[:-1]:
            x = layer(x).relu()
        return nn.functional.cross_entropy(at_least_float32(self.layers[-1](x)), labels)
