"""Modules whose results are traced for inference, with their inputs; and what is refused, with its message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Calls(nn.Module):
    """A function of the input, with parts that it may use."""

    def __init__(self, function: Callable[..., Any], *parts: nn.Module) -> None:
        super().__init__()
        self.parts, self.function = nn.ModuleList(parts), function

    def forward(self, x: Tensor) -> Any:
        return self.function(x, *self.parts)


class Tied(nn.Module):
    """Attention with a causal mask, scaled; a mask that another reads too."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k = nn.Linear(6, 6), nn.Linear(6, 6)
        self.register_buffer("mask", torch.ones(4, 4).tril().bool())

    def forward(self, x: Tensor) -> Tensor:
        scores = self.q(x) @ self.k(x).transpose(1, 2) * 0.5
        return scores.masked_fill(~self.mask, -torch.inf).softmax(-1) @ x


def _normed(norm: nn.Module) -> nn.Module:
    """Statistics that are not those of a fresh norm."""
    torch.manual_seed(7)
    norm.running_mean.normal_()  # type: ignore[operator, union-attr]
    norm.running_var.uniform_(0.5, 2.0)  # type: ignore[operator, union-attr]
    return norm


IMAGES, CLIPS, ROWS = (2, 4, 6, 6), (2, 4, 4, 6, 6), (2, 4, 6)


def _one(*parts: nn.Module) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(*parts)


RIGHT: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "batch norm": (_one(nn.Conv2d(4, 6, 3), _normed(nn.BatchNorm2d(6)), nn.ReLU()), IMAGES),
    "batch norm without weights": (_one(_normed(nn.BatchNorm2d(4, affine=False))), IMAGES),
    "batch norm 1d, 3d": (lambda: Calls(
        lambda x, a, b: b(x) + a(x.flatten(2)).unflatten(2, x.shape[2:]),
        _normed(nn.BatchNorm1d(4)), _normed(nn.BatchNorm3d(4))), CLIPS),
    "batch norm without statistics": (_one(nn.BatchNorm2d(4, track_running_stats=False)), IMAGES),
    "instance norm that tracks": (_one(_normed(nn.InstanceNorm2d(4, affine=True, track_running_stats=True))), IMAGES),
    "transposed": (_one(nn.ConvTranspose2d(4, 3, 4, 2, 1), nn.Tanh()), IMAGES),
    "transposed with all there is": (
        _one(nn.ConvTranspose2d(4, 6, (3, 2), (3, 2), (2, 1), (1, 1), groups=2, bias=False, dilation=(2, 3))), IMAGES),
    "transposed by channel": (_one(nn.ConvTranspose2d(4, 4, 3, 2, groups=4)), IMAGES),
    "transposed of a point": (_one(nn.ConvTranspose2d(4, 3, 4, bias=False)), (2, 4, 1, 1)),
    "transposed to a point": (_one(nn.ConvTranspose2d(4, 1, 1)), (2, 4, 1, 1)),
    "transposed 1d, 3d": (lambda: Calls(
        lambda x, a, b: b(x).flatten(2)[:, :, :50] + a(x.flatten(2))[:, :, :50],
        nn.ConvTranspose1d(4, 3, 3, 2), nn.ConvTranspose3d(4, 3, 2)), CLIPS),
    "three dimensions": (_one(
        nn.Conv3d(4, 4, 3, (1, 2, 2), 1, bias=False), nn.MaxPool3d(3, 1, 1), nn.AvgPool3d(2, 1, 1),
        nn.Conv3d(4, 2, 1, groups=2), nn.AdaptiveAvgPool3d(1), nn.Flatten()), CLIPS),
    "pads that are not counted": (_one(
        nn.AvgPool2d(3, 2, 1, count_include_pad=False), nn.AvgPool2d(1, 2, count_include_pad=False)), IMAGES),
    "pads that are not counted, 1d and 3d": (lambda: Calls(
        lambda x: F.avg_pool3d(x, 3, 1, 1, count_include_pad=False).mean((2, 3))
        + F.avg_pool1d(x[:, :, 0, 0], 3, 1, 1, count_include_pad=False)), CLIPS),
    "in place": (_one(nn.Conv2d(4, 4, 3), nn.ReLU(inplace=True), nn.Hardswish(inplace=True)), IMAGES),
    "dropout": (_one(nn.Dropout(0.5), nn.Linear(6, 5), nn.Dropout(0.1)), ROWS),
    "causal": (Tied, ROWS),
    "frozen, no gradients": (lambda: Calls(_frozen, nn.Linear(6, 6).requires_grad_(False)), ROWS),
    "several": (lambda: Calls(_several, nn.Linear(6, 6)), ROWS),
    "integers": (lambda: Calls(lambda x: x.argmax(-1)), ROWS),
    "a number that scales a result": (lambda: Calls(lambda x: ((y := x @ x.transpose(1, 2)), y * 0.5)), ROWS),
}  # fmt: skip
"""Name -> what makes the module, and the shape of its input."""


def _frozen(x: Tensor, linear: nn.Module) -> Tensor:
    with torch.no_grad():
        y = linear(x)
    with torch.enable_grad():
        return y.relu() + linear(y)


def _several(x: Tensor, linear: nn.Module) -> dict[str, Any]:
    first, second = linear(x).split(3, -1)
    return {"z": first.relu(), "a": [second, (first + second).sum(-1)], "again": second}


class Counts(nn.Module):
    """Writes into a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(6))

    def forward(self, x: Tensor) -> Tensor:
        self.seen.add_(1)
        return x + self.seen


def _partly(module: nn.Sequential) -> nn.Module:
    module[1].train()
    return module


REFUSED: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], str]] = {
    "training": (lambda: nn.Sequential(nn.Linear(6, 6), nn.Dropout()).train(), ROWS,
                 "module '(root)' is in training mode; call module.eval() before"),
    "a part in training": (lambda: _partly(nn.Sequential(nn.Linear(6, 6), nn.Dropout()).eval()), ROWS,
                           "module '1' is in training mode; call module.eval() before"),
    "an input": (lambda: Calls(lambda x: (x.relu(), x)), ROWS, "result 1 is an input or a parameter as it is"),
    "an input seen otherwise": (lambda: Calls(lambda x: x.contiguous()), ROWS, "is an input or a parameter as it is"),
    "no tensor": (lambda: Calls(lambda x: (x.relu(), 3)), ROWS, "result 1: expected a tensor (got 3)"),
    "nothing": (lambda: Calls(lambda x: []), ROWS, "gives nothing"),
    "a buffer written": (Counts, ROWS, "writes into 'traced.seen'; expected a module that gives results only"),
    "ceil mode": (lambda: nn.Sequential(nn.MaxPool2d(2, 2, ceil_mode=True)), IMAGES, "ceil_mode"),
    "data": (lambda: Calls(lambda x: x * 2 if x.sum() > 0 else x), ROWS, "depend on data"),
    "samples": (lambda: Calls(lambda x: x[:1]), ROWS, "takes a part of a dimension that grows with the batch"),
    "unknown": (lambda: Calls(lambda x: x.sort(-1)[0]), ROWS, "aten.sort.default"),
}  # fmt: skip
"""Name -> module, shape of the input, message."""
