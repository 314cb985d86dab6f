"""The two parts of a layer, attention and MLP: products, streaming kernels, tensor-parallel communication."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..collectives import GroupLinks
from ..kernels import FP8, Kernels
from ..model import TransformerShape
from ..rates import Stack

__all__ = ["Floats", "Part", "Products", "Tensor", "attention_part", "mlp_part", "products"]

Floats = NDArray[np.float64]
Pair = tuple[Floats, Floats]


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Seconds of a part of a layer, (forward, backward).

    Parameters
    ----------
    gemm, element, tensor : tuple of array
        Matrix products; streaming kernels; tensor-parallel communication that no product hides.
    exchange : tuple of array
        All-to-alls between the devices of experts.
    last, after : array
        The last product of the forward pass, and the collective after it.
    weight : array
        Of `gemm` backward, the products for weight gradients.
    """

    gemm: Pair
    element: Pair
    tensor: Pair
    exchange: Pair
    last: Floats
    after: Floats
    weight: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Products:
    """Seconds of several products and of their gradients, one list entry each."""

    each: list[Any]
    by_input: list[Any]
    by_weight: list[Any]

    @property
    def forward(self) -> Any:
        """All, forward."""
        return sum(self.each)

    @property
    def backward(self) -> Any:
        """All gradients."""
        return sum(self.by_input) + sum(self.by_weight)

    @property
    def weights(self) -> Any:
        """Gradients of weights."""
        return sum(self.by_weight)

    @property
    def last(self) -> Any:
        """The last one, forward."""
        return self.each[-1]


def products(
    kernels: Kernels, stack: Stack, n: Any, matrices: Sequence[tuple[Any, Any]], *, batch: Any = 1, narrow: bool = True
) -> Products:
    """Products of `n` rows with matrices of [columns, depth], `batch` such in one kernel, and their gradients."""
    added = stack.added_bytes
    return Products(
        [kernels.gemm(n, columns, depth, batch=batch, narrow=narrow) for columns, depth in matrices],
        [kernels.gemm(n, depth, columns, batch=batch, narrow=narrow) for columns, depth in matrices],
        [
            kernels.gemm(columns, depth, n, batch=batch, output_bytes=added, narrow=narrow)
            for columns, depth in matrices
        ],
    )


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """What tensor parallelism makes of a layer's tokens, one value per row.

    Parameters
    ----------
    group : GroupLinks
        Tensor-parallel groups.
    parallel : array of bool
        Whether norms are cut along the sequence.
    n, rows : array
        Tokens of a microbatch, and of those the ones whose norms this device computes.
    mask : int
        Bytes of a dropout mask's element; 0: no dropout.
    """

    group: GroupLinks
    parallel: NDArray[np.bool_]
    n: Floats
    rows: Floats
    mask: int


def attention_part(shape: TransformerShape, kernels: Kernels, stack: Stack, at: Tensor) -> Part:
    """Norm, projections and residual branch of attention; its core is `layer_costs.attention`."""
    t, n, rows, size, h = at.group.size, at.n, at.rows, kernels.size, shape.hidden
    out = shape.out_width / t
    if (latent := shape.latent) is None:
        q, qkv = shape.q_width / t, (shape.q_width + 2 * shape.kv_width) / t
        mine = products(kernels, stack, n, ((qkv, h), (h, q)))
        entry, first = h, 0
    else:
        q, qkv = shape.q_width / t, (2 * shape.q_width + shape.out_width) / t
        pairs = shape.heads * (shape.head_dim - latent.rope_dim + latent.value_dim) / t
        up = ((q, latent.q_rank or h), (pairs, latent.kv_rank), (h, out))
        mine = products(kernels, stack, n, up)
        # Latents are not split: each device makes those of its rows, and gathers them.
        down = [(float(latent.kv_rank + latent.rope_dim), h)] + ([(float(latent.q_rank), h)] if latent.q_rank else [])
        small = products(kernels, stack, rows, down)
        mine = Products(small.each + mine.each, small.by_input + mine.by_input, small.by_weight + mine.by_weight)
        entry, first = (latent.q_rank or h) + latent.kv_rank + latent.rope_dim, len(down)
    norm, drop = 2 * size * rows * h, at.mask * rows * h
    turn = 2 * size * n * (q if not shape.gated else q + qkv)  # heads to the front, or rotary embedding
    forward = kernels.streaming(norm + 3 * size * rows * h + drop, 2) + kernels.streaming(turn, 1)
    backward = kernels.streaming(
        4 * size * rows * h  # norm: gradient, input, output, and a pass for its weights
        + ((2 * size * rows * h + drop) if at.mask else 0)
        + 3 * size * rows * h  # the residual branch adds its gradient
        + (0 if shape.gated else size * (rows * h + n * qkv)),  # bias gradients
        4,
    ) + kernels.streaming(turn, 1)
    if stack.eager and shape.gated:
        kv = shape.kv_width / t
        heads = n * (12 * (q + kv) + (4 * q if shape.kv_heads < shape.heads else 0))
        more = _eager(kernels, rows * h, (heads, heads + 12 * rows * h))
        forward, backward = forward + more[0], backward + more[1]
    if not stack.flash:
        # Queries, keys and values are parts of one tensor, whose gradient is put together from theirs.
        backward = backward + kernels.streaming(2 * size * n * qkv, 1)
    if kernels.dtype == FP8:
        # The norm writes 8 bits; the attention's output is cast (3 bytes). Backward: see `mlp_part`.
        forward = forward + kernels.streaming(3 * n * out - rows * h, 1)
        backward = backward + kernels.streaming(2 * (n * h + n * out) + 4 * (n * h + n * qkv), 4)
    return _communicated(kernels, stack, at, mine, (forward, backward), (n * entry, n * h, first))


def mlp_part(shape: TransformerShape, kernels: Kernels, stack: Stack, at: Tensor) -> Part:
    """Norm, products, activation function and residual branch of a dense MLP.

    With 8-bit products (Transformer Engine on Hopper, delayed scaling) norms and the activation function write 8 bits
    instead of 16. Backward the inputs are transposed (2 bytes), gradients are cast and transposed at once (4 bytes),
    the activation function's kernel does its own for what it saves.
    """
    t, n, rows, size, h = at.group.size, at.n, at.rows, kernels.size, shape.hidden
    inner, ffn = shape.inner / t, shape.ffn / t
    mine = products(kernels, stack, n, ((inner, h), (h, ffn)))
    norm, drop = 2 * size * rows * h, at.mask * rows * h
    forward = kernels.streaming(norm + 3 * size * rows * h + drop + size * n * (3 * ffn if shape.gated else 2 * ffn), 3)
    backward = kernels.streaming(
        4 * size * rows * h
        + ((2 * size * rows * h + drop) if at.mask else 0)
        + 3 * size * rows * h
        + size * n * (5 * ffn if shape.gated else 4 * ffn)
        + (0 if shape.gated else size * rows * h),
        5,
    )
    if stack.eager and shape.gated:
        more = _eager(kernels, rows * h, (4 * n * ffn, 8 * n * ffn + 6 * rows * h))
        forward, backward = forward + more[0], backward + more[1]
    if kernels.dtype == FP8:
        forward = forward + kernels.streaming(-rows * h - n * ffn, 0)
        backward = backward + kernels.streaming(2 * (n * h + n * ffn) + 4 * n * h, 3)
    return _communicated(kernels, stack, at, mine, (forward, backward), (n * h, n * h, 0))


def _eager(kernels: Kernels, normed: Floats, others: Pair) -> Pair:
    """Seconds that a part takes more in PyTorch's single kernels (`Stack.eager`), forward and backward.

    Bytes are those of Llama's public code: RMSNorm of `normed` numbers (cast 6, square 8, mean 4, scale 8, cast 6,
    weight 4, less the 4 of a fused kernel; its autograd 92, less 8). `others`, by part: rotary positions with casts in
    fp32 (20 each way, less 8), grouped keys and values written out for all heads; SiLU and the product apart (10 and
    18, less 6 and 10); the input gradients of products that others fuse, added up (6 each).
    """
    return kernels.streaming(32 * normed + others[0], 10), kernels.streaming(84 * normed + others[1], 20)


def _communicated(
    kernels: Kernels, stack: Stack, at: Tensor, mine: Products, element: Pair, entry: tuple[Floats, Floats, int]
) -> Part:
    """A part with its collectives. `entry`: numbers of what its column-parallel product takes, of what the last product
    gives, and which product is the column-parallel one.

    In the backward pass the reduction of a column-parallel layer's input gradient runs under its weight gradient, and
    (sequence parallel) the gather of its input under its input gradient (`Kernels.beside`).
    """
    group, sp, t, size = at.group, at.parallel, at.group.size, kernels.size
    taken, given, first = entry
    half, reduce = group.half(size * given), group.all_reduce(size * given)
    # Inputs and gradients are gathered as they are multiplied.
    narrow = 1 if kernels.dtype == FP8 and first == 0 else size
    gather = group.half(narrow * taken)
    gradient = group.half((1 if kernels.dtype == FP8 else size) * given)
    one = np.where(sp, group.half(size * taken), group.all_reduce(size * taken))
    before, after = gather, half
    if stack.overlap_tensor:
        # Chunk by chunk, one per device: the first one cannot be hidden.
        before = _beside_chunks(kernels, gather, mine.each[first], t)
        after = _beside_chunks(kernels, half, mine.last, t)
        gradient = _beside_chunks(kernels, gradient, mine.by_input[-1], t)
    beside_input = kernels.beside(gather, mine.by_input[first])
    backward = kernels.beside(one, mine.by_weight[first]) + np.where(sp, beside_input + gradient, 0.0)
    zero = 0.0 * at.n
    return Part(
        (mine.forward + zero, mine.backward + zero),
        element,
        (np.where(sp, before + after, reduce), backward),
        (zero, zero),
        mine.last,
        np.where(sp, after, reduce),
        mine.weights + zero,
    )


def _beside_chunks(kernels: Kernels, collective: Any, product: Any, chunks: Any) -> Floats:
    """Seconds that a collective adds to the product that it feeds or follows, in so many chunks."""
    return collective / chunks + kernels.beside((1 - 1 / chunks) * collective, (1 - 1 / chunks) * product)
