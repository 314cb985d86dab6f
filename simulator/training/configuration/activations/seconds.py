"""Seconds that a layer's backward pass takes longer when it makes a class of tensors again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..kernels import FP8, Kernels
from ..layer.spread import Spread
from ..layer_costs import LayerTimes
from ..mixture.block import pairs
from ..model import TransformerShape
from ..rates import Stack
from .tensors import FIXED, TENSORS

__all__ = ["again_seconds"]

Floats = NDArray[np.float64]


def again_seconds(
    shape: TransformerShape,
    kernels: Kernels,
    stack: Stack,
    spread: Spread,
    tokens: tuple[Floats, Floats],
    layers: tuple[LayerTimes, LayerTimes],
) -> tuple[Floats, Floats]:
    """Seconds by class (`TENSORS`), of shape (classes, rows), of a layer with a dense MLP and of one with experts; inf
    where nothing but full recomputation makes it again.

    A class is made from those before it, which are there by then: kept, brought back, or made again themselves. With
    sequence parallelism what a product takes is gathered once more. Of scores in memory it is the whole core, whose
    output comes with it: `context` alone is the second product.

    Parameters
    ----------
    shape, kernels, stack, spread
        Model, device, software, layout.
    tokens : tuple of array
        Tokens of a tensor-parallel group, and those whose norms a device computes.
    layers : tuple of LayerTimes
        A layer with a dense MLP, and one with experts.
    """
    (n, rows), t, size, h = tokens, spread.tensor.size, kernels.size, shape.hidden
    narrow = 1 if kernels.dtype == FP8 else size
    cut = rows < n
    eager = stack.eager and shape.gated

    def gathered(width: float) -> Floats:
        return np.where(cut, spread.tensor.half(width * n), 0.0)

    # Both norms; PyTorch's single kernels as `layer.parts` counts them.
    normed = kernels.streaming(2 * (size + narrow + (32 if eager else 0)) * rows * h, 12 if eager else 2)
    qkv, latents = _projected(shape, kernels, n, rows, t)
    wide = h
    if shape.latent:
        wide = (shape.latent.q_rank or h) + shape.latent.kv_rank + shape.latent.rope_dim
    qkv = qkv + gathered((narrow if not shape.latent else size) * wide)
    core = layers[0].attention[0]
    context = core + layers[0].context[0]
    if not stack.flash:
        context = kernels.gemm(shape.seq, shape.core_dim, shape.seq, batch=n / shape.seq * shape.heads / t)
    ffn = shape.ffn / t
    inner = kernels.gemm(n, shape.inner / t, h, narrow=True) + gathered(narrow * h)
    activated = kernels.streaming((3 if shape.gated else 2) * size * n * ffn, 1)
    if eager:
        activated = activated + kernels.streaming(4 * n * ffn, 1)
    never = np.full_like(n, np.inf)
    by_name = dict.fromkeys(FIXED, never) | {
        "latents": latents, "normed": normed, "qkv": qkv, "scores": core, "context": context,
        "arrived": 0.0 * n, "inner": inner, "activated": activated,
    }  # fmt: skip
    dense = np.stack([by_name[name] + 0.0 * n for name in TENSORS])
    if shape.experts is None:
        return dense, dense
    by_name |= _experts(shape, kernels, stack, spread, n)
    return dense, np.stack([by_name[name] + 0.0 * n for name in TENSORS])


def _projected(shape: TransformerShape, kernels: Kernels, n: Floats, rows: Floats, t: Floats) -> tuple[Floats, Floats]:
    """Queries, keys and values from the norm's output, or from latents; and these."""
    size, h, none = kernels.size, shape.hidden, 0.0 * n
    q = shape.q_width / t
    if (latent := shape.latent) is None:
        qkv = (shape.q_width + 2 * shape.kv_width) / t
        turn = 2 * size * n * (q if not shape.gated else q + qkv)
        return kernels.gemm(n, qkv, h, narrow=True) + kernels.streaming(turn, 1), none
    wide = (2 * shape.q_width + shape.out_width) / t
    pair = shape.heads * (shape.head_dim - latent.rope_dim + latent.value_dim) / t
    turn = 2 * size * n * (q if not shape.gated else q + wide)
    up = kernels.gemm(n, q, latent.q_rank or h, narrow=True) + kernels.gemm(n, pair, latent.kv_rank, narrow=True)
    down = kernels.gemm(rows, float(latent.kv_rank + latent.rope_dim), h, narrow=True)
    if latent.q_rank:
        down = down + kernels.gemm(rows, float(latent.q_rank), h, narrow=True)
    norms = kernels.streaming(2 * size * rows * (latent.kv_rank + latent.q_rank), 2)
    return up + kernels.streaming(turn, 1), down + norms


def _experts(shape: TransformerShape, kernels: Kernels, stack: Stack, spread: Spread, n: Floats) -> dict[str, Floats]:
    """Of a layer with experts: tokens are sent to them once more and sorted, and their products made again."""
    mixed, t, size, h = shape.experts, spread.tensor.size, kernels.size, shape.hidden
    assert mixed is not None
    mine, ours, local = n / t, pairs(shape, n, t, spread), mixed.count / spread.ep
    width = mixed.ffn / spread.etp
    sent = spread.experts.tokens(
        mine * h * (stack.dispatch_bytes or size), mixed.top_k, mixed.load, once=stack.dispatch_once
    )
    copies = size * h * (mine * (1 + mixed.top_k) + np.where(spread.ep > 1, 2 * ours, 0.0))
    inner = kernels.gemm(ours / local, 2 * width, h, batch=local, narrow=True)
    activated = kernels.streaming(3 * size * ours * width, 1)
    if mixed.shared_ffn:
        shared = mixed.shared_ffn / t
        inner = inner + kernels.gemm(n, 2 * shared, h, narrow=True) + spread.tensor.half(size * n * h)
        activated = activated + kernels.streaming(size * n * 3 * shared, 1)
    arrived = sent + spread.slices.half(size * ours * h) + kernels.streaming(copies, 3)
    return {"arrived": arrived, "inner": inner, "activated": activated}
