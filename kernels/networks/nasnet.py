"""NASNet-A for ImageNet (Zoph et al. 2018, Fig. 4 and Appendix A), with the cells' wiring as in its authors' code.

Strided convolutions and poolings pad both sides alike; TensorFlow's "same" pads one side where a size is even. Shapes,
products and parameters are the same.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["FactorizedReduction", "NASNetA", "NormalCell", "ReductionCell", "Separable"]

EPS = 1e-3
"""Of all batch norms, as in the authors' code."""


class Separable(nn.Module):
    """ReLU, depthwise and pointwise convolution, batch norm; all of it twice, the first time with the stride."""

    def __init__(self, channels: int, out: int, kernel: int, stride: int = 1) -> None:
        super().__init__()
        half = kernel // 2
        self.depthwise1 = nn.Conv2d(channels, channels, kernel, stride, half, groups=channels, bias=False)
        self.pointwise1 = nn.Conv2d(channels, out, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(out, eps=EPS)
        self.depthwise2 = nn.Conv2d(out, out, kernel, 1, half, groups=out, bias=False)
        self.pointwise2 = nn.Conv2d(out, out, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(out, eps=EPS)
        # Two such are summed in every cell.
        self.norm2.last_of_branch = True  # pyright: ignore[reportArgumentType]

    def forward(self, x: Tensor) -> Tensor:
        """Convolve."""
        x = self.norm1(self.pointwise1(self.depthwise1(functional.relu(x))))
        return self.norm2(self.pointwise2(self.depthwise2(functional.relu(x))))


class Squeeze(nn.Module):
    """ReLU, 1 × 1 convolution, batch norm: a cell's input with the cell's number of channels."""

    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, out, 1, bias=False)
        self.norm = nn.BatchNorm2d(out, eps=EPS)

    def forward(self, x: Tensor) -> Tensor:
        """Convolve."""
        return self.norm(self.conv(functional.relu(x)))


class FactorizedReduction(nn.Module):
    """Half the resolution by two 1 × 1 convolutions, one of the even and one of the odd pixels."""

    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.even = nn.Conv2d(channels, out // 2, 1, bias=False)
        self.odd = nn.Conv2d(channels, out - out // 2, 1, bias=False)
        self.norm = nn.BatchNorm2d(out, eps=EPS)

    def forward(self, x: Tensor) -> Tensor:
        """Reduce."""
        x = functional.relu(x)
        moved = functional.pad(x, (0, 1, 0, 1))[:, :, 1:, 1:]
        parts = [
            conv(functional.avg_pool2d(y, 1, 2, count_include_pad=False))
            for conv, y in ((self.even, x), (self.odd, moved))
        ]
        return self.norm(torch.cat(parts, 1))


def _mean(x: Tensor, stride: int = 1) -> Tensor:
    return functional.avg_pool2d(x, 3, stride, 1, count_include_pad=False)


def _largest(x: Tensor) -> Tensor:
    return functional.max_pool2d(x, 3, 2, 1)


class NormalCell(nn.Module):
    """Reads the two cells before it, keeps the resolution, gives six times its filters.

    Parameters
    ----------
    channels, before : int
        Channels of the last cell's result and of the one before it.
    filters : int
        Of the cell.
    reduces : bool
        Whether the one before has twice the resolution.
    """

    def __init__(self, channels: int, before: int, filters: int, reduces: bool) -> None:
        super().__init__()
        self.now = Squeeze(channels, filters)
        self.past = FactorizedReduction(before, filters) if reduces else Squeeze(before, filters)
        self.now5, self.past3 = Separable(filters, filters, 5), Separable(filters, filters, 3)
        self.past5, self.past3b = Separable(filters, filters, 5), Separable(filters, filters, 3)
        self.now3 = Separable(filters, filters, 3)

    def forward(self, x: Tensor, before: Tensor) -> Tensor:
        """The cell."""
        now, past = self.now(x), self.past(before)
        mean = _mean(past)
        made = (
            self.now5(now) + self.past3(past),
            self.past5(past) + self.past3b(past),
            _mean(now) + past,
            mean + mean,  # the cell that was found adds the pooled input to itself
            self.now3(now) + now,
        )
        return torch.cat((past, *made), 1)


class ReductionCell(nn.Module):
    """Reads the two cells before it, halves the resolution, gives four times its filters.

    Parameters
    ----------
    channels, filters : int
        As for `NormalCell`.
    before : int
        Channels of what is read second; 0: the cell is the first, and reads its input, as it is, twice.
    reduces : bool
        As for `NormalCell`.
    """

    def __init__(self, channels: int, before: int, filters: int, reduces: bool = False) -> None:
        super().__init__()
        self.now = Squeeze(channels, filters)
        kind = FactorizedReduction if reduces else Squeeze
        self.past = kind(before, filters) if before else None
        second = filters if before else channels
        self.now5, self.past7 = Separable(filters, filters, 5, 2), Separable(second, filters, 7, 2)
        self.past7b, self.past5 = Separable(second, filters, 7, 2), Separable(second, filters, 5, 2)
        self.first3 = Separable(filters, filters, 3)

    def forward(self, x: Tensor, before: Tensor) -> Tensor:
        """The cell."""
        now, past = self.now(x), before if self.past is None else self.past(before)
        largest = _largest(now)
        first = self.now5(now) + self.past7(past)
        second = largest + self.past7b(past)
        third = _mean(now, 2) + self.past5(past)
        return torch.cat((second, third, second + _mean(first), self.first3(first) + largest), 1)


class NASNetA(nn.Module):
    """NASNet-A that gives class scores; "4 @ 1056" (mobile) by default.

    Parameters
    ----------
    cells : int
        Normal cells of each of the three stages.
    filters : int
        Of the first stage, doubled by each; a multiple of 4. The last cell has 24 times as many channels.
    stem, classes : int
        Filters of the first convolution; classes.
    """

    def __init__(self, *, cells: int = 4, filters: int = 44, stem: int = 32, classes: int = 1000) -> None:
        super().__init__()
        if filters % 4:
            raise ValueError(f"nasnet-a: filters: expected a multiple of 4 (got {filters})")
        self.conv, self.norm = nn.Conv2d(3, stem, 3, 2, bias=False), nn.BatchNorm2d(stem, eps=EPS)
        chain: list[nn.Module] = [
            ReductionCell(stem, 0, filters // 4),
            ReductionCell(filters, stem, filters // 2, reduces=True),
        ]
        before, now, reduces = filters, 2 * filters, True  # channels of the last two results; whether sizes differ
        for stage in range(3):
            wide = filters * 2**stage
            if stage:
                chain.append(ReductionCell(now, before, wide))
                before, now, reduces = now, 4 * wide, True
            for _ in range(cells):
                chain.append(NormalCell(now, before, wide, reduces))
                before, now, reduces = now, 6 * wide, False
        self.cells = nn.ModuleList(chain)
        self.head = nn.Linear(now, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Scores of every class, ``[batch, classes]``."""
        x = self.norm(self.conv(images))
        before = x
        for cell in self.cells:
            x, before = cell(x, before), x
        return self.head(functional.adaptive_avg_pool2d(functional.relu(x), 1).flatten(1))
