"""Classes of tensors that a layer keeps of a microbatch, and their bytes; together what `memory` counts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..columns import Columns
from ..layer.context import pair_width
from ..mixture.held import expert_pairs
from ..model import TransformerShape
from ..rates import Stack

__all__ = ["FIXED", "TENSORS", "has_dropout", "present", "score_bytes", "tensor_bytes"]

Floats = NDArray[np.float64]

TENSORS = (
    "inputs", "masks", "latents", "normed", "qkv", "scores", "context", "arrived", "inner", "activated",
)  # fmt: skip
"""Inputs of both norms; dropout masks and the router's logits; latents before and after their norms; outputs of both
norms; queries, keys and values; attention scores, where they are in memory; the attention core's output, fused with its
log-sums; tokens that arrived at experts; inputs of the activation function, and its output."""
FIXED = ("inputs", "masks")
"""Classes that only full recomputation makes again: they are kept or offloaded."""


def has_dropout(shape: TransformerShape, stack: Stack) -> bool:
    """Whether a layer has dropout."""
    return (stack.dropout and not shape.gated) if shape.dropout is None else shape.dropout


def score_bytes(shape: TransformerShape, stack: Stack, size: int) -> int:
    """Per attention score in memory: the softmax, and with dropout its output and mask."""
    return 2 * size + 1 if has_dropout(shape, stack) else size


def present(shape: TransformerShape, stack: Stack) -> tuple[int, ...]:
    """Places in `TENSORS` of the classes that a model has."""
    gone = {
        "masks": not has_dropout(shape, stack) and shape.experts is None,
        "latents": shape.latent is None,
        "scores": stack.flash,
        "arrived": shape.experts is None,
    }
    return tuple(k for k, name in enumerate(TENSORS) if not gone.get(name, False))


def tensor_bytes(shape: TransformerShape, stack: Stack, c: Columns, size: int, narrow: bool) -> tuple[Floats, Floats]:
    """Bytes of each class on one device, of shape (classes, rows): in a layer with a dense MLP, and in one with experts
    (the same without experts).

    Parameters
    ----------
    shape, stack, c
        Model, software, configurations.
    size : int
        Bytes of an activation.
    narrow : bool
        Whether inputs of matrices are kept in 8 bits.
    """
    t, n, h = c.tp.astype(float), c.microbatch / c.cp * shape.seq, shape.hidden
    r = np.where(c.sequence_parallel, t, 1.0)
    gemm = 1 if narrow else size
    dropout = has_dropout(shape, stack)
    latents = 0
    if shape.latent:
        latents = (size + gemm) * (shape.latent.kv_rank + shape.latent.q_rank) + size * shape.latent.rope_dim
    fused = 4 * shape.heads if stack.flash else 0
    common = {
        "inputs": n / r * (2 * size * h),
        "masks": n / r * (2 * h if dropout else 0),
        "latents": n / r * latents,
        "normed": n / r * (2 * gemm * h),
        "qkv": n / t * (size * (shape.q_width + pair_width(shape))),
        "scores": n / t * (0 if stack.flash else score_bytes(shape, stack, size) * shape.heads * shape.seq),
        "context": n / t * ((size + (1 if narrow else 0)) * shape.out_width + fused),
    }
    none = 0.0 * n
    plain = common | {"inner": n / t * (size * shape.inner), "activated": n / t * (gemm * shape.ffn), "arrived": none}
    dense = np.stack([plain[name] for name in TENSORS])
    if (experts := shape.experts) is None:
        return dense, dense
    pairs, width = expert_pairs(shape, c), experts.ffn / c.expert_tensor
    special = common | {
        "masks": common["masks"] + n / t * (4 * experts.count),
        "arrived": pairs * (gemm * h),
        "inner": 2 * size * (pairs * width + n / t * experts.shared_ffn),
        "activated": gemm * (pairs * width + n / t * experts.shared_ffn),
    }
    return dense, np.stack([special[name] for name in TENSORS])
