"""Graphs of Wide-ResNet and of a plain perceptron."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .builder import Builder, Model
from .transformer import cross_entropy

__all__ = ["MlpNet", "ResNet"]


@dataclass(frozen=True, kw_only=True, repr=False)
class ResNet(Model):
    """A ResNet of bottleneck blocks: 1 x 1 to `c` channels, 3 x 3 to `c · width`, 1 x 1 to `4 c`, c = base · 2^stage.

    The parameters of Table 8 imply this reading of its width factor. Blocks that change resolution do so in their
    3 x 3 convolution and in the projection beside it; batch norms take the statistics of one microbatch.

    Parameters
    ----------
    blocks : sequence of int
        Bottleneck blocks of every stage: (3, 4, 6, 3) for 50 layers, (3, 4, 23, 3) for 101.
    base, width : int
        Base channel and width factor.
    image, classes, stem : int
        Side of the image, classes, and side of the first convolution's kernel. The stem halves the image twice
        (stride 2, max pool) where its kernel is larger than 3, not at all otherwise.
    dtype : str
        Of parameters and activations.
    """

    blocks: Sequence[int]
    base: int
    width: int
    image: int = 224
    classes: int = 1024
    stem: int = 7

    def write(self, b: Builder) -> tuple[int, str]:
        """See `Model`."""
        base, image, stem = self.base, self.image, self.stem
        pixels, labels = b.input("images", 3, image, image, dtype=self.dtype), b.input("labels")
        x, side = _conv(b, "stem", pixels, 3, base, stem, 2 if stem > 3 else 1, image)
        x = _relu(b, "stem.relu", x)
        if stem > 3:
            side = (side - 1) // 2 + 1
            x = b.add(
                "stem.pool", "pool", "b c i j -> b c y x", x, whole="i j y x", sizes={"y": side, "x": side},
                saves=(0, -1), flops=9.0 * b.batch * base * side * side, fn="max", kernel=(3, 3), stride=(2, 2),
                padding=(1, 1),
            )  # fmt: skip
        channels = base
        for stage, count in enumerate(self.blocks):
            c = base * 2**stage
            for k in range(count):
                b.layer += 1
                at, stride = f"stages.{stage}.{k}", 2 if stage > 0 and k == 0 else 1
                y, _ = _conv(b, f"{at}.conv1", x, channels, c, 1, 1, side)
                y, after = _conv(b, f"{at}.conv2", _relu(b, f"{at}.relu1", y), c, c * self.width, 3, stride, side)
                y, _ = _conv(b, f"{at}.conv3", _relu(b, f"{at}.relu2", y), c * self.width, 4 * c, 1, 1, after)
                if k == 0:
                    x, _ = _conv(b, f"{at}.project", x, channels, 4 * c, 1, stride, side)
                y = b.add(f"{at}.residual", "elementwise", "b c y x, b c y x -> b c y x", y, x, fn="add")
                x, channels, side = _relu(b, f"{at}.relu3", y), 4 * c, after
        b.layer = -1
        x = b.add("pool", "reduction", "b c y x -> b c", x, fn="mean")
        b.parameter("head.weight", channels, self.classes)
        x = b.add("head", "contraction", "b c, c k -> b k", x, "head.weight", saves=(0, 1))
        x = b.add("head.add", "elementwise", "b k, k -> b k", x, b.parameter("head.bias", self.classes), fn="add")
        cross_entropy(b, x, labels, "b", "k")
        return 1, "images"


def _conv(
    b: Builder, name: str, x: str, channels: int, out: int, kernel: int, stride: int, side: int
) -> tuple[str, int]:
    """A convolution without bias (padding keeps the side at stride 1) and its batch norm; also the result's side."""
    pad = kernel // 2
    after = (side + 2 * pad - kernel) // stride + 1
    b.parameter(f"{name}.weight", out, channels, kernel, kernel)
    x = b.add(
        name, "convolution", "b c i j, k c p q -> b k y x", x, f"{name}.weight", whole="i j p q y x",
        sizes={"y": after, "x": after}, saves=(0, 1), stride=(stride, stride), padding=(pad, pad), dilation=(1, 1),
    )  # fmt: skip
    weight, bias = b.parameter(f"{name}.norm.weight", out), b.parameter(f"{name}.norm.bias", out)
    x = b.add(
        f"{name}.norm", "norm", "b c y x, c, c -> b c y x", x, weight, bias, statistic="b y x", saves=(0, 1),
        fn="batch", eps=1e-5,
    )  # fmt: skip
    return x, after


def _relu(b: Builder, name: str, x: str) -> str:
    return b.add(name, "elementwise", "b c y x -> b c y x", x, saves=(-1,), fn="relu")


@dataclass(frozen=True, kw_only=True, repr=False)
class MlpNet(Model):
    """A perceptron: `layers` projections with relu between, classes by cross entropy.

    Parameters
    ----------
    layers, hidden, features, classes : int
        Projections, the width between them, features that are read, classes.
    dtype : str
        Of parameters and activations.
    """

    layers: int
    hidden: int
    features: int
    classes: int

    def write(self, b: Builder) -> tuple[int, str]:
        """See `Model`."""
        x, labels = b.input("features", self.features, dtype=self.dtype), b.input("labels")
        size, last = self.features, self.layers - 1
        for i in range(self.layers):
            b.layer, out = i, self.classes if i == last else self.hidden
            at = f"layers.{i}"
            b.parameter(f"{at}.weight", size, out)
            x = b.add(at, "contraction", "b h, h f -> b f", x, f"{at}.weight", saves=(0, 1))
            x = b.add(f"{at}.add", "elementwise", "b f, f -> b f", x, b.parameter(f"{at}.bias", out), fn="add")
            if i < last:
                x = b.add(f"{at}.relu", "elementwise", "b f -> b f", x, saves=(-1,), fn="relu")
            size = out
        b.layer = -1
        cross_entropy(b, x, labels, "b", "f")
        return 1, "samples"
