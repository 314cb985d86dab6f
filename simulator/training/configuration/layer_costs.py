"""Seconds of one layer, of the embedding and of the output layer, per microbatch, for arrays of configurations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .collectives import GroupLinks
from .kernels import Kernels
from .layer.context import context_seconds
from .layer.parts import Floats, Tensor, attention_part, mlp_part
from .layer.spread import Spread
from .mixture.block import OPS, expert_part, host_waits
from .model import TransformerShape
from .rates import CORE, Stack

__all__ = ["NONE", "SELECTIVE", "FULL", "EndTimes", "LayerTimes", "end_times", "layer_times", "padded_vocab"]

NONE, SELECTIVE, FULL = 0, 1, 2
"""Codes of what is recomputed."""


@dataclass(frozen=True, slots=True, eq=False)
class LayerTimes:
    """Seconds of one layer on one device for one microbatch, one value per row.

    Parameters
    ----------
    gemm, attention, element : tuple of array
        (forward, backward) without what is recomputed: matrix products, attention core, streaming kernels.
    tensor : tuple of array
        (forward, backward) tensor-parallel communication that no product hides.
    recompute : array
        Forward work done once more in the backward pass, with its communication.
    launch : tuple of array
        (forward, backward) time that the device waits for the host.
    context, experts : tuple of array
        (forward, backward) communication of context parallelism and of experts that nothing hides.
    weight : array
        Of `gemm` backward, the products for weight gradients.
    """

    gemm: tuple[Floats, Floats]
    attention: tuple[Floats, Floats]
    element: tuple[Floats, Floats]
    tensor: tuple[Floats, Floats]
    recompute: Floats
    launch: tuple[Floats, Floats]
    context: tuple[Floats, Floats]
    experts: tuple[Floats, Floats]
    weight: Floats

    @property
    def forward(self) -> Floats:
        """One forward pass."""
        return self._of(0)

    @property
    def backward(self) -> Floats:
        """One backward pass with what it recomputes."""
        return self._of(1) + self.recompute

    def _of(self, k: int) -> Floats:
        """One pass without what is recomputed."""
        alone = self.gemm[k] + self.attention[k] + self.element[k] + self.tensor[k] + self.launch[k]
        return alone + self.context[k] + self.experts[k]


def layer_times(
    shape: TransformerShape,
    kernels: Kernels,
    stack: Stack,
    group: GroupLinks,
    microbatch: Any,
    sequence_parallel: Any,
    recompute: Any,
    spread: Spread | None = None,
    *,
    mixed: bool = False,
) -> LayerTimes:
    """Costs of one layer.

    Bytes of streaming kernels are counted kernel by kernel as Megatron-LM fuses them: norm; bias, dropout and
    residual; bias and GELU (or SwiGLU); scale, mask and softmax.

    Parameters
    ----------
    shape, kernels, stack
        Model, device and software.
    group : GroupLinks
        Tensor-parallel groups, one per row.
    microbatch, sequence_parallel, recompute : array
        Samples; bool; codes.
    spread : Spread, optional
        Context and expert parallelism; none without it.
    mixed : bool
        Whether the layer has experts. It needs a `spread`.
    """
    t, b = group.size, np.asarray(microbatch, dtype=float)
    sp, again = np.asarray(sequence_parallel, dtype=bool), np.asarray(recompute)
    n = b * shape.seq if spread is None else b * shape.seq / spread.cp
    dropout = stack.dropout and not shape.gated if shape.dropout is None else shape.dropout
    at = Tensor(group, sp, n, np.where(sp, n / t, n), 1 if dropout else 0)

    core = _attention(shape, kernels, stack, (n, t, spread), dropout)
    first = attention_part(shape, kernels, stack, at)
    if mixed:
        assert spread is not None
        second = expert_part(shape, kernels, stack, spread, t, n)
    else:
        second = mlp_part(shape, kernels, stack, at)
    none = 0.0 * n
    around = (none, none) if spread is None else context_seconds(shape, kernels, spread, core, n, t)
    sums = [[a + b for a, b in zip(x, y, strict=True)] for x, y in (
        (first.gemm, second.gemm), (first.element, second.element), (first.tensor, second.tensor)
    )]  # fmt: skip
    (gemm, element, tensor) = ((x[0], x[1]) for x in sums)
    work = [gemm[k] + core[k] + element[k] + tensor[k] for k in (0, 1)]
    experts = second.exchange
    if spread is not None and mixed:
        beside = [kernels.beside(each, alone) for each, alone in zip(experts, work, strict=True)]
        experts = tuple(np.where(spread.overlap, *both) for both in zip(beside, experts, strict=True))
    device = [work[k] + around[k] + experts[k] for k in (0, 1)]
    ops = (stack.ops_forward + OPS[0] * mixed, stack.ops_backward + OPS[1] * mixed)
    launch = [np.maximum(ops[k] * stack.op_s - device[k], 0) for k in (0, 1)]
    if spread is not None and mixed:
        launch = [hidden + waited for hidden, waited in zip(launch, host_waits(shape, stack, spread), strict=True)]
    scores = 0.0 if stack.flash else core[0]  # a fused kernel recomputes by itself; selective adds nothing
    # What follows the last product's input is not recomputed: the product, and what follows it.
    rest = second.last + second.after if stack.early_stop else 0.0
    extra = np.where(again == FULL, device[0] + launch[0] - rest, np.where(again == SELECTIVE, scores, 0.0))
    return LayerTimes(
        gemm, core, element, tensor, extra, (launch[0], launch[1]), around, (experts[0], experts[1]),
        first.weight + second.weight,
    )  # fmt: skip


def _attention(
    shape: TransformerShape, kernels: Kernels, stack: Stack, over: tuple[Floats, Floats, Spread | None], dropout: bool
) -> tuple[Floats, Floats]:
    """Attention core (forward, backward): one fused kernel, or products and softmax over scores in memory. `over`:
    tokens of a device, its tensor-parallel degree, and what else shares its sequences."""
    n, t, spread = over
    s, d, heads = shape.seq, shape.core_dim, shape.heads / t
    if stack.flash:
        # In a ring the kernel runs on blocks of a sequence, with as many products; heads that are exchanged see all.
        ring = 1.0 if spread is None else np.where(spread.by_heads, 1.0, spread.cp)
        length: Any = s if spread is None else s / ring
        return (
            kernels.flash(n * ring, heads, length, d, backward=False, generation=stack.flash_generation),
            kernels.flash(n * ring, heads, length, d, backward=True, generation=stack.flash_generation),
        )
    size, scores, batch = kernels.size, n * heads * s, n / s * heads
    products = kernels.gemm(s, s, d, batch=batch) + kernels.gemm(s, d, s, batch=batch)
    drop = 2 * size + 1 if dropout else 0
    forward = products + kernels.streaming((2 * size + drop) * scores, 2)
    backward = 2 * products + kernels.streaming((3 * size + drop) * scores, 2)
    return forward, backward


@dataclass(frozen=True, slots=True, eq=False)
class EndTimes:
    """Seconds of the first stage's embedding and the last stage's output layer with its loss, per microbatch."""

    embedding_forward: Floats
    embedding_backward: Floats
    head_forward: Floats
    head_backward: Floats


def padded_vocab(shape: TransformerShape, tp: Any) -> Floats:
    """Vocabulary padded to a multiple of ``128 x tp``, as Megatron does."""
    block = 128.0 * np.asarray(tp, dtype=float)
    return np.ceil(shape.vocab / block) * block


def end_times(
    shape: TransformerShape,
    kernels: Kernels,
    group: GroupLinks,
    microbatch: Any,
    sequence_parallel: Any,
    stack: Stack = CORE,
    cp: Any = 1,
) -> EndTimes:
    """Costs of the ends, vocabulary-parallel."""
    t, sp = group.size, np.asarray(sequence_parallel, dtype=bool)
    n = np.asarray(microbatch, dtype=float) * shape.seq / np.asarray(cp, dtype=float)
    size, h, v = kernels.size, shape.hidden, padded_vocab(shape, t) / t
    rows = np.where(sp, n / t, n)
    whole = size * n * h
    half, reduce = group.half(whole), group.all_reduce(whole)
    by_weight = kernels.gemm(v, h, n, output_bytes=stack.added_bytes)
    statistics = 3 * group.all_reduce(4 * n)
    return EndTimes(
        kernels.streaming(4 * size * n * h, 3) + np.where(sp, half, reduce),
        kernels.streaming((size + 8) * n * h, 2) + np.where(sp, half, 0.0),
        kernels.gemm(n, v, h)
        + kernels.streaming(stack.loss_bytes[0] * n * v + 2 * size * rows * h, 7)
        + statistics
        + np.where(sp, half, 0.0),
        kernels.gemm(n, h, v)
        + by_weight
        + kernels.streaming(stack.loss_bytes[1] * n * v + 4 * size * rows * h, 4)
        + kernels.beside(np.where(sp, half, reduce), by_weight),
    )
