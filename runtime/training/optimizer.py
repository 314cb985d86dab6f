"""`Optimizer`: Adam, SGD, SGD with momentum and Adafactor on shards of parameters.

All but Adafactor work element by element, so that a shard needs nothing of the others. Adafactor needs means over rows
and columns and two norms of the whole parameter; `Shard.add` sums them over the devices that hold it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from ...errors import InputError
from ...profiles.graph.memory import OPTIMIZERS

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Optimizer", "PlainStep", "Shard", "Step", "Stepping"]


class Step(Protocol):
    """The optimiser of one parameter, or of a shard of it, with its state."""

    @property
    def state(self) -> list[Tensor]:
        """What it keeps between steps."""
        ...

    def apply(self, value: Tensor, gradient: Tensor, iteration: int) -> None:
        """Make one step in place; iterations count from 0."""
        ...


class Stepping(Protocol):
    """An optimiser: ours, or one of torch (`own.optimizer`)."""

    def begin(self, name: str, value: Tensor, shard: Shard | None = None) -> Step:
        """The state of one parameter, or of a shard of it, before the first step."""
        ...


@dataclass(frozen=True, slots=True)
class Shard:
    """Tells the optimiser of which whole parameter a shard is a part.

    Parameters
    ----------
    full : tuple of int
        Shape of the whole parameter.
    add : callable
        (tensor, dimensions) -> its sum over the devices among which the parameter is cut along those dimensions.
    """

    full: tuple[int, ...]
    add: Callable[[Tensor, tuple[int, ...]], Tensor]


@dataclass(frozen=True, slots=True)
class Optimizer:
    """Adam (Kingma & Ba, Algorithm 1), SGD without or with momentum, Adafactor (Shazeer & Stern); no weight decay.

    Defaults are those of the papers: Adam's `rate`, `betas` and `eps` of Algorithm 1, Adafactor's `decay`,
    `least_scale` and `clip`; `momentum` is the customary value. Adafactor is torch's reading of the paper: no first
    moment, the last two dimensions are the factored matrix, `rate` bounds the relative step (the paper has 1e-2 there),
    and ε₁ is the machine epsilon of the number format.

    Parameters
    ----------
    name : {"adam", "sgd", "momentum", "adafactor"}
        Which optimiser.
    rate : float
        Learning rate; for Adafactor the largest relative step.
    betas : (float, float)
        Adam's decay of the moments.
    eps : float
        Adam: added to the root of the second moment.
    momentum : float
        For "momentum": how much of the last step's direction is kept.
    decay : float
        Adafactor: its second moments keep 1 − t^decay of themselves in step t.
    least_scale : float
        Adafactor's ε₂: a weight's root mean square counts as at least this.
    clip : float
        Adafactor's d: the root mean square of an update, before the step size, is at most this.
    """

    name: Literal["adam", "sgd", "momentum", "adafactor"] = "adam"
    rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    momentum: float = 0.9
    decay: float = -0.8
    least_scale: float = 1e-3
    clip: float = 1.0

    def __post_init__(self) -> None:
        if self.name not in OPTIMIZERS:
            raise InputError(f"optimizer: expected one of {', '.join(OPTIMIZERS)} (got {self.name!r})")

    def state(self, value: Tensor) -> list[Tensor]:
        """Initial state for a parameter or a shard of it; for Adafactor's matrices, row and column values."""
        import torch

        if self.name == "adafactor" and value.dim() > 1:
            return [value.new_zeros((*value.shape[:-1], 1)), value.new_zeros((*value.shape[:-2], 1, value.shape[-1]))]
        count = {"adam": 2, "sgd": 0}.get(self.name, 1)
        return [torch.zeros_like(value, memory_format=torch.contiguous_format) for _ in range(count)]

    def begin(self, name: str, value: Tensor, shard: Shard | None = None) -> PlainStep:
        """The state of one parameter, or of a shard of it, before the first step; the same for every name."""
        return PlainStep(self, value, shard)

    def apply(
        self, value: Tensor, gradient: Tensor, state: list[Tensor], iteration: int, shard: Shard | None = None
    ) -> None:
        """Make one step in place.

        Parameters
        ----------
        value, gradient : Tensor
            Weights and their gradient, of the same shape.
        state : list of Tensor
            What `state` returned; updated in place.
        iteration : int
            From 0.
        shard : Shard, optional
            The parameter of which `value` is a shard; by default `value` is the whole.
        """
        if self.name == "sgd":
            value.sub_(gradient, alpha=self.rate)
        elif self.name == "momentum":
            state[0].mul_(self.momentum).add_(gradient)
            value.sub_(state[0], alpha=self.rate)
        elif self.name == "adafactor":
            self._adafactor(value, gradient, state, iteration + 1, shard or Shard(tuple(value.shape), _alone))
        else:
            self._adam(value, gradient, state, iteration + 1)

    def _adam(self, value: Tensor, gradient: Tensor, state: list[Tensor], step: int) -> None:
        import torch
        from torch.optim.adam import adam

        # One pass over memory instead of seven. The kernel reads memory as it lies, so that all must lie alike.
        whole = value.contiguous()
        adam(
            [whole], [gradient.contiguous()], state[:1], state[1:], [], [torch.tensor(step - 1.0, device=value.device)],
            fused=True, amsgrad=False, beta1=self.betas[0], beta2=self.betas[1], lr=self.rate, weight_decay=0.0,
            eps=self.eps, maximize=False,
        )  # fmt: skip
        if whole is not value:
            value.copy_(whole)

    def _adafactor(self, value: Tensor, gradient: Tensor, state: list[Tensor], step: int, shard: Shard) -> None:
        import torch

        eps, new = torch.finfo(value.dtype).eps, float(step) ** self.decay
        squares = gradient.square()
        dims = len(shard.full)
        if dims > 1:
            rows, columns = state
            rows.lerp_(shard.add(squares.sum(-1, keepdim=True), (dims - 1,)) / shard.full[-1], new)
            # One exchange for both: column sums, and the sum of the row values that normalises the product.
            down = torch.cat([squares.sum(-2, keepdim=True), rows.sum(-2, keepdim=True)], -1)
            down = shard.add(down, (dims - 2,)) / shard.full[-2]
            columns.lerp_(down[..., :-1], new)
            second = (rows @ columns).div_(down[..., -1:].clamp(min=eps))
        else:
            state[0].lerp_(squares, new)
            second = state[0].clone()
        # ε₁² under the root is ε₁ beside it, as torch has it: no division by zero where a row had no gradient.
        update = second.clamp_(min=eps * eps).rsqrt_().mul_(gradient)
        norms = shard.add(torch.stack([value.square().sum(), update.square().sum()]), tuple(range(dims)))
        weight, change = (norms / max(1, math.prod(shard.full))).sqrt().tolist()
        size = max(self.least_scale, weight) * min(self.rate, step**-0.5)
        value.sub_(update, alpha=size / max(1.0, change / self.clip))


class PlainStep:
    """An `Optimizer` and its state of one parameter."""

    def __init__(self, optimizer: Optimizer, value: Tensor, shard: Shard | None) -> None:
        self.optimizer, self.shard = optimizer, shard
        self.state = optimizer.state(value)

    def apply(self, value: Tensor, gradient: Tensor, iteration: int) -> None:
        """Make one step in place."""
        self.optimizer.apply(value, gradient, self.state, iteration, self.shard)


def _alone(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The sum over one device."""
    return x
