"""Cross entropy of logits whose vocabulary is cut over ranks."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional

__all__ = ["cross_entropy"]


def cross_entropy(logits: Tensor, labels: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    """The mean over tokens, in float32 or longer.

    Parameters
    ----------
    logits : Tensor
        (samples, tokens, this rank's part of the vocabulary).
    labels : Tensor
        (samples, tokens).
    group : ProcessGroup, optional
        Who has the other parts; none: all is here.
    """
    flat = logits.flatten(0, 1)
    flat = flat if flat.dtype in (torch.float32, torch.float64) else flat.float()
    if group is None:
        return functional.cross_entropy(flat, labels.flatten())
    return _CutVocabulary.apply(flat, labels.flatten(), group).mean()


class _CutVocabulary(torch.autograd.Function):
    """Megatron-LM's (Shoeybi et al. 2019, §3): three numbers a token go round, not its logits."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, group: dist.ProcessGroup) -> Tensor:
        first = group.rank() * logits.shape[1]
        largest = logits.amax(1)
        dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
        shares = (logits - largest.unsqueeze(1)).exp()
        total = shares.sum(1)
        dist.all_reduce(total, group=group)
        places = labels - first
        here = (places >= 0) & (places < logits.shape[1])
        places = places.clamp(0, logits.shape[1] - 1)
        right = torch.where(here, logits.gather(1, places.unsqueeze(1)).squeeze(1) - largest, logits.new_zeros(()))
        dist.all_reduce(right, group=group)
        ctx.save_for_backward(shares / total.unsqueeze(1), places, here)
        return total.log() - right

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (given,) = gradients
        shares, places, here = ctx.saved_tensors
        found = shares.scatter_add(1, places.unsqueeze(1), -here.to(shares.dtype).unsqueeze(1))
        return found * given.unsqueeze(1), None, None
