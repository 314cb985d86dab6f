"""`Optimizer`: Adam and SGD on shards: every element's step needs that element alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ...errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Optimizer"]


@dataclass(frozen=True, slots=True)
class Optimizer:
    """Adam (Kingma & Ba, Algorithm 1, without weight decay) or plain SGD.

    Parameters
    ----------
    name : {"adam", "sgd"}
        Which.
    rate : float
        Learning rate.
    betas : (float, float)
        Decay of the moments.
    eps : float
        Added to the root of the second moment.
    """

    name: Literal["adam", "sgd"] = "adam"
    rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    def __post_init__(self) -> None:
        if self.name not in ("adam", "sgd"):
            raise InputError(f"optimizer: expected adam or sgd (got {self.name!r})")

    def state(self, value: Tensor) -> list[Tensor]:
        """First state for a parameter or a shard of one."""
        import torch

        return [torch.zeros_like(value), torch.zeros_like(value)] if self.name == "adam" else []

    def apply(self, value: Tensor, gradient: Tensor, state: list[Tensor], iteration: int) -> None:
        """One step, in place.

        Parameters
        ----------
        value, gradient : Tensor
            Of one shape.
        state : list of Tensor
            As `state` made it, brought forward.
        iteration : int
            From 0.
        """
        if self.name == "sgd":
            value.sub_(gradient, alpha=self.rate)
            return
        first, second = state
        b1, b2 = self.betas
        first.mul_(b1).add_(gradient, alpha=1 - b1)
        second.mul_(b2).addcmul_(gradient, gradient, value=1 - b2)
        scale1, scale2 = 1 - b1 ** (iteration + 1), 1 - b2 ** (iteration + 1)
        value.addcdiv_(first, second.sqrt().div_(math.sqrt(scale2)).add_(self.eps), value=-self.rate / scale1)
