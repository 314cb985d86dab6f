"""`operator_laps`: what one worker does to measure operators: forward, and backward to inputs and to weights.

It computes what the training runtime computes (`profiles.graph.compute`, gradients by autograd, gradients of weights
added to those of earlier microbatches), in the order of a stage: a round goes forward through all shapes, and then
backward through them. So an operator finds its weights, and what it kept of the forward pass, as cold as in a stage;
the activations that it reads forward and the gradient that it gets were just written, as by the operator before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ....kernels.timing import Lap
from ...graph.compute.draws import Draws, draws_at_random
from ...graph.compute.loops import Axes, Local
from ...graph.compute.operators import compute
from ...graph.costs.shapes import local as local_shape
from ..pool import Worker
from .shapes import Shape

if TYPE_CHECKING:
    from torch import Generator, Tensor

__all__ = ["Laps", "operator_laps"]

Clock = Callable[[Callable[[], Any]], tuple[Lap, Any]]
"""Calls something; gives the lap and what it returned."""

HALF = 2
"""Devices that a cut loop is on, as far as the operator is told: sums for statistics see another device."""


@dataclass(frozen=True)
class Laps:
    """Laps of one operator.

    Parameters
    ----------
    forward, back : tuple of Lap
        The forward pass; the whole backward pass.
    inputs : tuple of Lap
        The backward pass to the activations alone; empty where that is the whole one, or where there is none.
    weights : bool
        Whether there are gradients of weights.
    """

    forward: tuple[Lap, ...]
    back: tuple[Lap, ...]
    inputs: tuple[Lap, ...]
    weights: bool


class _Alone:
    """Collectives of operators that are computed by themselves: a sum over devices is this device's part of it."""

    shape = (HALF, 1)

    def size(self, axes: Axes) -> int:
        """Devices in a group along these axes."""
        return HALF if axes else 1

    def index(self, axes: Axes) -> int:
        """Position in it."""
        return 0

    def all_reduce(self, x: Tensor, axes: Axes) -> Tensor:
        """The own part."""
        return x.clone() if axes else x

    def statistic(self, x: Tensor, axes: Axes) -> Tensor:
        """The own part."""
        return self.all_reduce(x, axes)


class _Operator:
    """One shape with its operands, ready to be run again and again."""

    def __init__(self, shape: Shape, device: str, dtype: str | None, generator: Any) -> None:
        import torch

        op = shape.local.op
        draws = Draws(0, 0, 0, 1) if draws_at_random(op) else None
        start, cut = dict.fromkeys(shape.local.cut, 0), dict[str, Axes].fromkeys(shape.local.cut, (0,))
        self.local = Local(shape.whole, op.sizes, start, cut, _Alone(), draws)
        self.stored: list[Tensor] = []
        for dims, one in zip(op.parsed.operands, shape.operands, strict=True):
            size = op.shape_of(dims)
            if one.dtype.startswith(("float", "bfloat")):
                x = torch.randn(size, generator=generator, device="cpu").to(getattr(torch, dtype or one.dtype))
            elif one.dtype == "bool":
                x = torch.rand(size, generator=generator, device="cpu") < 0.5
                if size and size[-1] > 1:
                    x[..., 0], x[..., 1] = True, False
            else:
                x = torch.randint(0, one.limit, size, generator=generator, device="cpu")
                x = x.to(getattr(torch, one.dtype))
            self.stored.append(x.to(device))
        on = local_shape(op, {})
        self.wants = [k for k, one in enumerate(shape.operands) if one.wants and self.stored[k].is_floating_point()]
        self.weights = [k for k in self.wants if on.is_weight(k)]
        self.values = [k for k in self.wants if k not in self.weights]
        made = compute(self.local, self.stored)  # warm-up; and it says whether it can be computed at all
        if not made.is_floating_point():
            self.wants, self.weights, self.values = [], [], []
        drawn = torch.randn(made.shape, generator=generator, device="cpu")
        self.gradient = drawn.to(made.dtype).to(device) if self.wants else made
        self._made = self.gradient
        self._kept_leaves: list[Tensor] = []
        self.sums = {k: torch.zeros_like(self.stored[k]) for k in self.weights}

    @property
    def halves(self) -> bool:
        """Whether the backward pass to the activations is a part of the whole one."""
        return bool(self.weights and self.values)

    def forward(self, clock: Clock) -> Lap:
        """A lap of the forward pass, which keeps what the backward pass needs."""
        self._kept_leaves = leaves = self._leaves()
        lap, self._made = clock(lambda: self._forward(leaves))
        return lap

    def back(self, clock: Clock, wants: Sequence[int]) -> Lap:
        """A lap of the backward pass to some operands, once after a forward pass."""
        made, leaves, gradient = self._made, self._kept_leaves, self.gradient.clone()
        lap, _ = clock(lambda: self._back(made, leaves, gradient, wants))
        self._made, self._kept_leaves = self.gradient, []
        return lap

    def _leaves(self) -> list[Tensor]:
        fresh = [x if k in self.weights else x.clone() for k, x in enumerate(self.stored)]
        return [x.detach().requires_grad_() if k in self.wants else x for k, x in enumerate(fresh)]

    def _forward(self, leaves: Sequence[Tensor]) -> Tensor:
        import torch

        with torch.set_grad_enabled(bool(self.wants)):
            made = compute(self.local, leaves)
        made.detach()
        return made

    def _back(self, made: Tensor, leaves: Sequence[Tensor], gradient: Tensor, wants: Sequence[int]) -> None:
        import torch

        found = torch.autograd.grad(made, [leaves[k] for k in wants], gradient)
        for k, g in zip(wants, found, strict=True):
            if k in self.sums:
                self.sums[k].add_(g)


def operator_laps(
    worker: Worker, *, shapes: Sequence[Shape], rounds: int, dtype: str | None, seed: int
) -> list[Laps | str]:
    """Laps of each shape; of one that cannot be computed by itself, why.

    Parameters
    ----------
    shapes : sequence of Shape
        What fits into memory together.
    rounds : int
        Laps of each.
    dtype : str, optional
        Type that floating-point operators are computed in; by default each in its own.
    seed : int
        Of the operands.
    """
    import torch

    # Indices that operators count themselves are made on the GPU, too; where that is no matter it would cost time.
    with torch.device(worker.device) if worker.device.startswith("cuda") else nullcontext():
        return _laps(worker, shapes, rounds, dtype, torch.Generator("cpu").manual_seed(seed + worker.rank))


def _laps(
    worker: Worker, shapes: Sequence[Shape], rounds: int, dtype: str | None, generator: Generator
) -> list[Laps | str]:
    clock = _clock(worker.device)
    ready: list[_Operator | str] = []
    for shape in shapes:
        try:
            one = _Operator(shape, worker.device, dtype, generator)
            one.forward(clock)
            if one.wants:
                one.back(clock, one.wants)
        except (RuntimeError, ValueError, IndexError, NotImplementedError) as error:
            ready.append(" ".join(str(error).split())[:200] or type(error).__name__)
        else:
            ready.append(one)
    able = [one for one in ready if not isinstance(one, str)]
    found: dict[int, tuple[list[Lap], list[Lap], list[Lap]]] = {id(one): ([], [], []) for one in able}
    for _ in range(rounds):
        worker.barrier()
        for one in able:
            found[id(one)][0].append(one.forward(clock))
        for one in reversed(able):
            if one.wants:
                found[id(one)][1].append(one.back(clock, one.wants))
        for one in able:
            if one.halves:
                one.forward(clock)
        for one in reversed(able):
            if one.halves:
                found[id(one)][2].append(one.back(clock, one.values))
    return [
        one if isinstance(one, str) else Laps(*(tuple(laps) for laps in found[id(one)]), weights=bool(one.weights))
        for one in ready
    ]


def _clock(device: str) -> Clock:
    """Time one call: on a GPU by events, on a CPU with the share of its core that the thread had."""

    def on_gpu(call: Callable[[], Any]) -> tuple[Lap, Any]:
        import torch

        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        result = call()
        end.record()
        end.synchronize()
        return Lap(start.elapsed_time(end) * 1e-3, 1.0), result

    def on_cpu(call: Callable[[], Any]) -> tuple[Lap, Any]:
        start, had = time.perf_counter(), time.thread_time()
        result = call()
        had, seconds = time.thread_time() - had, time.perf_counter() - start
        return Lap(seconds, min(1.0, had / seconds)), result

    return on_gpu if device.startswith("cuda") else on_cpu
