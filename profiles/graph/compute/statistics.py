"""Statistics of norms, softmaxes and losses whose loops are cut over devices, with gradients.

Each costs one all-reduce forward (what every device found of its part) and at most one backward (the gradients of the
statistic, of which every device has a part).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from ....errors import InputError
from .loops import Local

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["cross_entropy_rows", "log_sum_exp", "moments", "picked_rows"]


def moments(local: Local, x: Tensor, dims: tuple[int, ...], over: Sequence[str], *, centred: bool) -> tuple[Any, Any]:
    """Mean and variance over some dimensions, kept; about zero (mean not computed) if not `centred`."""
    if not dims:  # of one element each; torch takes no dimensions for all of them
        return (x, torch.zeros_like(x)) if centred else (None, x.square())
    if not local.axes_of(over):
        if not centred:
            return None, x.square().mean(dim=dims, keepdim=True)
        variance, mean = torch.var_mean(x, dim=dims, correction=0, keepdim=True)
        return mean, variance
    return _Moments.apply(x, local, dims, tuple(over), centred)  # pyright: ignore


class _Moments(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, local: Local, dims: tuple[int, ...], over: tuple[str, ...], centred: bool) -> Any:
        axes = local.axes_of(over)
        n = local.full(over)
        if centred:
            variance, mean = torch.var_mean(x, dim=dims, correction=0, keepdim=True)
            found = local.collect(torch.stack((mean, variance)), axes)  # parts are equally large
            mean = found[:, 0].mean(dim=0)
            variance = found[:, 1].mean(dim=0) + (found[:, 0] - mean).square().mean(dim=0)
        else:
            mean = torch.zeros(())
            variance = local.total(x.square().sum(dim=dims, keepdim=True), axes) / n
        ctx.save_for_backward(x, mean)
        ctx.how = local, axes, n, centred
        return mean, variance

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        x, mean = ctx.saved_tensors
        local, axes, n, centred = ctx.how
        if centred:
            of_mean, of_variance = local.add_up(torch.stack(gradients), axes)
            return of_mean / n + of_variance * (2.0 / n) * (x - mean), None, None, None, None
        return local.add_up(gradients[1], axes) * (2.0 / n) * x, None, None, None, None


def log_sum_exp(local: Local, x: Tensor, dims: tuple[int, ...], over: Sequence[str]) -> Tensor:
    """log Σ exp over some dimensions, kept."""
    if not dims:  # of one element each; torch takes no dimensions for all of them
        return x
    if not local.axes_of(over):
        return torch.logsumexp(x, dim=dims, keepdim=True)
    return _LogSumExp.apply(x, local, dims, tuple(over))  # pyright: ignore


class _LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, local: Local, dims: tuple[int, ...], over: tuple[str, ...]) -> Tensor:
        axes = local.axes_of(over)
        found = local.collect(torch.logsumexp(x, dim=dims, keepdim=True), axes)
        y = torch.logsumexp(found, dim=0)
        ctx.save_for_backward(x, y)
        ctx.how = local, axes
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        x, y = ctx.saved_tensors
        local, axes = ctx.how
        return local.add_up(gradients[0], axes) * torch.exp(x - y), None, None, None


def cross_entropy_rows(local: Local, logits: Tensor, labels: Tensor, classes: str) -> Tensor:
    """Cross entropy of every row; `classes`, the last dimension of the logits, may be cut (vocabulary-parallel)."""
    if classes not in local.cut:
        flat = torch.nn.functional.cross_entropy(logits.flatten(0, -2), labels.flatten(), reduction="none")
        return flat.reshape(labels.shape)
    return _CrossEntropy.apply(logits, labels, local, classes)  # pyright: ignore


def picked_rows(local: Local, logs: Tensor, labels: Tensor, classes: str) -> Tensor:
    """Negative log-probability of every row's label; `classes`, the last dimension of `logs`, must be whole.

    Raises
    ------
    InputError
        If the classes are cut: each device would have the labels of some rows only.
    """
    if classes in local.cut:
        raise InputError(f"operator {local.op.name!r}: the classes of an nll loss cannot be cut; use cross_entropy")
    return -logs.gather(-1, labels[..., None])[..., 0]


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, local: Local, classes: str) -> Tensor:
        mine = labels - local.start[classes]
        here = (mine >= 0) & (mine < local.sizes[classes])
        at = mine.clamp(0, local.sizes[classes] - 1)[..., None]
        picked = logits.gather(-1, at)[..., 0] * here
        found = local.collect(torch.stack((torch.logsumexp(logits, dim=-1), picked)), local.cut[classes])
        total = torch.logsumexp(found[:, 0], dim=0)
        ctx.save_for_backward(logits, total, at, here)
        return total - found[:, 1].sum(dim=0)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        logits, total, at, here = ctx.saved_tensors
        y = torch.exp(logits - total[..., None])  # softmax; no device needs another for its part
        y.scatter_add_(-1, at, -here[..., None].to(y.dtype))
        return y * gradients[0][..., None], None, None, None
