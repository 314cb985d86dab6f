"""Bytes of a layer with experts: what it keeps of a microbatch, its temporaries, and the experts themselves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..columns import Columns
from ..model import TransformerShape
from ..stages import Stages
from ..words import ZB_V

__all__ = ["expert_pairs", "experts_of_stages", "kept_by_experts", "passing_through_experts"]

Floats = NDArray[np.float64]


def expert_pairs(shape: TransformerShape, c: Columns) -> Floats:
    """(token, expert) pairs that the fullest device computes of one microbatch and layer."""
    assert shape.experts is not None
    mine = c.microbatch * (shape.seq / (c.cp * c.tp))
    return mine * shape.experts.top_k * c.expert_tensor * shape.experts.load


def kept_by_experts(shape: TransformerShape, c: Columns, size: int, gemm: int) -> Floats:
    """Bytes that stand in the place of what a dense MLP keeps between its norm and its output: the tokens that arrived,
    inputs of the activation function and of the second product, the router's logits in fp32, and the same of shared
    experts. `gemm`: bytes of a product's input."""
    mixed = shape.experts
    assert mixed is not None
    n, t, width = c.microbatch * (shape.seq / c.cp), c.tp, mixed.ffn / c.expert_tensor
    routed = expert_pairs(shape, c) * (gemm * shape.hidden + (2 * size + gemm) * width)
    return routed + n / t * (4 * mixed.count + (2 * size + gemm) * mixed.shared_ffn)


def passing_through_experts(shape: TransformerShape, c: Columns, size: int) -> Floats:
    """Bytes of the gradients around a layer's experts in its backward pass: of the hidden state twice, of the tokens
    that arrived as they came and as they were sorted, and of the activation function's inputs and output."""
    mixed = shape.experts
    assert mixed is not None
    n, width = c.microbatch * (shape.seq / c.cp), mixed.ffn / c.expert_tensor
    shared = n * 5 * mixed.shared_ffn / c.tp
    return size * (2 * n * shape.hidden + expert_pairs(shape, c) * (2 * shape.hidden + 5 * width) + shared)


def experts_of_stages(shape: TransformerShape, c: Columns, stages: Stages) -> tuple[Floats, Floats, Floats]:
    """Weights of routed experts on a device of the first stage, of a middle one and of the last, with those of layers
    that predict further tokens."""
    if shape.experts is None:
        none = np.zeros(len(c.tp))
        return none, none, none
    each = shape.experts.count * shape.expert_params / (c.ep * c.expert_tensor)
    first, middle, last = stages.mixed
    further, vee = shape.mtp_layers, c.schedule == ZB_V  # whose last chunk is on the first device
    more = np.where((c.pp == 1) | vee, further, 0), np.where(vee, 0, further)
    return each * (first + more[0]), each * middle, each * (last + more[1])
