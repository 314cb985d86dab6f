"""Seconds of one layer, of the embedding and of the output layer, per microbatch, for arrays of configurations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .collectives import GroupLinks
from .kernels import FP8, Kernels
from .model import TransformerShape
from .rates import CORE, Stack

__all__ = ["NONE", "SELECTIVE", "FULL", "EndTimes", "LayerTimes", "end_times", "layer_times", "padded_vocab"]

Floats = NDArray[np.float64]
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
    """

    gemm: tuple[Floats, Floats]
    attention: tuple[Floats, Floats]
    element: tuple[Floats, Floats]
    tensor: tuple[Floats, Floats]
    recompute: Floats
    launch: tuple[Floats, Floats]

    @property
    def forward(self) -> Floats:
        """One forward pass."""
        return self.gemm[0] + self.attention[0] + self.element[0] + self.tensor[0] + self.launch[0]

    @property
    def backward(self) -> Floats:
        """One backward pass with what it recomputes."""
        return self.gemm[1] + self.attention[1] + self.element[1] + self.tensor[1] + self.launch[1] + self.recompute


def layer_times(
    shape: TransformerShape,
    kernels: Kernels,
    stack: Stack,
    group: GroupLinks,
    microbatch: Any,
    sequence_parallel: Any,
    recompute: Any,
) -> LayerTimes:
    """Costs of one layer.

    Bytes of streaming kernels are counted kernel by kernel as Megatron-LM fuses them: norm; bias, dropout and
    residual; bias and GELU (or SwiGLU); scale, mask and softmax. In the backward pass the reduction of a
    column-parallel layer's input gradient runs under its weight gradient, and (sequence parallel) the gather of its
    input under its input gradient (`Kernels.beside`).

    Parameters
    ----------
    shape, kernels, stack
        Model, device and software.
    group : GroupLinks
        Tensor-parallel groups, one per row.
    microbatch, sequence_parallel, recompute : array
        Samples; bool; codes.
    """
    t, b = group.size, np.asarray(microbatch, dtype=float)
    sp, again = np.asarray(sequence_parallel, dtype=bool), np.asarray(recompute)
    n = b * shape.seq
    rows = np.where(sp, n / t, n)
    size = kernels.size
    dropout = stack.dropout and not shape.gated if shape.dropout is None else shape.dropout
    h, inner, ffn = shape.hidden, shape.inner / t, shape.ffn / t
    qkv, q = (shape.q_width + 2 * shape.kv_width) / t, shape.q_width / t

    matrices = ((qkv, h), (h, q), (inner, h), (h, ffn))  # [columns, depth] of the four products
    forward = [kernels.gemm(n, columns, depth, narrow=True) for columns, depth in matrices]
    by_input = [kernels.gemm(n, depth, columns, narrow=True) for columns, depth in matrices]
    by_weight = [
        kernels.gemm(columns, depth, n, output_bytes=stack.added_bytes, narrow=True) for columns, depth in matrices
    ]

    attention = _attention(shape, kernels, stack, n, t, dropout)

    norm, mask = 2 * size * rows * h, (1 if dropout else 0) * rows * h
    element_forward = kernels.streaming(
        2 * norm + 2 * (3 * size * rows * h + mask) + size * n * (3 * ffn if shape.gated else 2 * ffn), 5
    )
    element_backward = kernels.streaming(
        2 * (4 * size * rows * h)  # norms: gradient, input, output, and a pass for their weights
        + 2 * ((2 * size * rows * h + mask) if dropout else 0)
        + 2 * (3 * size * rows * h)  # residual branches add their gradients
        + size * n * (5 * ffn if shape.gated else 4 * ffn)
        + (0 if shape.gated else size * (2 * rows * h + n * qkv)),  # bias gradients
        9,
    )
    turn = 2 * size * n * (q if not shape.gated else q + qkv)  # heads to the front, or rotary embedding
    element_forward = element_forward + kernels.streaming(turn, 1)
    element_backward = element_backward + kernels.streaming(turn, 1)
    if not stack.flash:
        # Queries, keys and values are parts of one tensor, whose gradient is put together from theirs.
        element_backward = element_backward + kernels.streaming(2 * size * n * qkv, 1)
    if kernels.dtype == FP8:
        casts = _casts(kernels, n * h, rows * h, n * q, n * qkv, n * ffn)
        element_forward, element_backward = element_forward + casts[0], element_backward + casts[1]

    whole = size * n * h
    half, reduce = group.half(whole), group.all_reduce(whole)
    gather = (
        group.half(n * h) if kernels.dtype == FP8 else half
    )  # inputs and gradients are gathered as they are multiplied
    one = np.where(sp, half, reduce)
    before, after = 2 * gather, 2 * half  # of the products of a pass
    if stack.overlap_tensor:
        # Chunk by chunk, one per device: the first one cannot be hidden.
        before = _beside_chunks(kernels, gather, forward[0], t) + _beside_chunks(kernels, gather, forward[2], t)
        after = _beside_chunks(kernels, half, forward[1], t) + _beside_chunks(kernels, half, forward[3], t)
    tensor_forward = np.where(sp, before + after, 2 * reduce)
    gradients = 2 * gather
    if stack.overlap_tensor:
        gradients = _beside_chunks(kernels, gather, by_input[1], t) + _beside_chunks(kernels, gather, by_input[3], t)
    beside_weight = kernels.beside(one, by_weight[0]) + kernels.beside(one, by_weight[2])
    beside_input = kernels.beside(gather, by_input[0]) + kernels.beside(gather, by_input[2])
    tensor_backward = beside_weight + np.where(sp, beside_input + gradients, 0.0)

    gemm_forward, gemm_backward = sum(forward), sum(by_input) + sum(by_weight)
    device_forward = gemm_forward + attention[0] + element_forward + tensor_forward
    device_backward = gemm_backward + attention[1] + element_backward + tensor_backward
    launch_forward = np.maximum(stack.ops_forward * stack.op_s - device_forward, 0)
    launch_backward = np.maximum(stack.ops_backward * stack.op_s - device_backward, 0)
    core = 0.0 if stack.flash else attention[0]  # a fused kernel recomputes by itself; selective adds nothing
    # What follows the last product's input is not recomputed: the product, and half of what follows products.
    rest = forward[3] + np.where(sp, after / 2, reduce) if stack.early_stop else 0.0
    extra = np.where(again == FULL, device_forward + launch_forward - rest, np.where(again == SELECTIVE, core, 0.0))
    return LayerTimes(
        (gemm_forward + 0 * n, gemm_backward + 0 * n),
        attention,
        (element_forward, element_backward),
        (tensor_forward, tensor_backward),
        extra,
        (launch_forward, launch_backward),
    )


def _beside_chunks(kernels: Kernels, collective: Any, product: Any, chunks: Any) -> Floats:
    """Seconds that a collective adds to the product that it feeds or follows, in so many chunks."""
    return collective / chunks + kernels.beside((1 - 1 / chunks) * collective, (1 - 1 / chunks) * product)


def _casts(kernels: Kernels, whole: Any, rows: Any, q: Any, qkv: Any, ffn: Any) -> tuple[Floats, Floats]:
    """Seconds (forward, backward) of what 8-bit products add to a layer's streaming kernels, for so many elements of
    the hidden state, of its share on this device, of queries, of queries, keys and values, and of the MLP.

    Transformer Engine on Hopper, delayed scaling. Forward: norms and the activation function write 8 bits instead of
    16; the attention's output is cast (3 bytes). Backward: the four inputs are transposed (2 bytes), three gradients
    are cast and transposed at once (4 bytes), the activation function's kernel does the fourth for what it saves.
    """
    forward = 3 * q - 2 * rows - ffn
    backward = 2 * (2 * whole + q + ffn) + 4 * (2 * whole + qkv)
    return kernels.streaming(forward, 1), kernels.streaming(backward, 7)


def _attention(
    shape: TransformerShape, kernels: Kernels, stack: Stack, n: Floats, t: Floats, dropout: bool
) -> tuple[Floats, Floats]:
    """Attention core (forward, backward): one fused kernel, or products and softmax over scores in memory."""
    s, d, heads = shape.seq, shape.head_dim, shape.heads / t
    if stack.flash:
        return (
            kernels.flash(n, heads, s, d, backward=False, generation=stack.flash_generation),
            kernels.flash(n, heads, s, d, backward=True, generation=stack.flash_generation),
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
) -> EndTimes:
    """Costs of the ends, vocabulary-parallel."""
    t, sp = group.size, np.asarray(sequence_parallel, dtype=bool)
    n = np.asarray(microbatch, dtype=float) * shape.seq
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
