"""Seconds of a layer's experts: router, exchange of tokens, grouped products, shared experts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels import FP8, Kernels
from ..layer.parts import Floats, Part, products
from ..layer.spread import Spread
from ..model import TransformerShape
from ..rates import Stack

__all__ = ["OPS", "expert_part", "host_waits", "pairs"]

OPS = (20, 25)
"""Operators that experts add to a layer, forward and backward: router, top-k, counts, two permutations each way.
Counted by hand in Megatron Core's dispatcher, and rounded: a guess."""


def host_waits(shape: TransformerShape, stack: Stack, spread: Spread) -> tuple[Floats, Floats]:
    """Seconds, forward and backward, that a device waits for the host's launches of its experts' products.

    Without a capacity the host must hear how many tokens came to each expert before it launches their products. It
    waits for the device, and so has no lead when it goes on. What it then launches expert by expert is taken to be
    waited for in full. NVIDIA's own pairs of runs agree: on a B200, whose runs nothing here predicts, 16 experts to a
    device cost 2.7 ms (Qwen3-235B) and 4.5 ms (30B) a layer more without a capacity than with one, which lets a graph
    of launches be replayed (Megatron Bridge's pages, containers 25.09 and 25.11); 16 x 22 operators are 3.5 ms.
    """
    mixed = shape.experts
    assert mixed is not None
    local = mixed.count / spread.ep
    one = 0.0 if mixed.capacity else stack.op_s
    return local * (stack.expert_ops[0] * one), local * (stack.expert_ops[1] * one)


def pairs(shape: TransformerShape, tokens: Any, tp: Any, spread: Spread) -> Floats:
    """(token, expert) pairs that the fullest device computes; `tokens` are those of a tensor-parallel group."""
    assert shape.experts is not None
    mine = np.asarray(tokens, dtype=float) / tp  # of one device: experts and tp > 1 need sequence parallelism
    return mine * shape.experts.top_k * spread.etp * shape.experts.load


def expert_part(shape: TransformerShape, kernels: Kernels, stack: Stack, spread: Spread, t: Floats, n: Floats) -> Part:
    """What stands in the place of the MLP, with its norm and its residual branch.

    Each device routes its own tokens, sends each to the devices of its experts (`Exchange.tokens`), multiplies what it
    receives in one grouped product for all of its experts, and sends the results back. Where several devices share an
    expert they gather each other's tokens first and add up results after.

    Parameters
    ----------
    shape, kernels, stack, spread
        Model, device, software, layout.
    t, n : array
        Tensor-parallel degree; tokens of a tensor-parallel group.
    """
    mixed = shape.experts
    assert mixed is not None
    h, size, mine = shape.hidden, kernels.size, n / t
    ours, local = pairs(shape, n, t, spread), mixed.count / spread.ep
    width, each = mixed.ffn / spread.etp, ours / local
    grouped = products(kernels, stack, each, ((2 * width, h), (h, width)), batch=local)
    routed = products(kernels, stack, mine, ((float(mixed.count), h),), narrow=False)
    gemm = [grouped.forward + routed.forward, grouped.backward + routed.backward]

    weights = grouped.weights + routed.weights
    logits, copies = 4 * mine * mixed.count, mine * mixed.top_k
    moved = 2 * size * h * (mine + copies)  # permuted before, put together after
    sorted_again = np.where(spread.ep > 1, 4 * size * h * ours, 0.0)  # by expert, on arrival, and back
    forward = kernels.streaming(5 * size * mine * h + 6 * logits + moved + sorted_again + 3 * size * ours * width, 10)
    backward = kernels.streaming(7 * size * mine * h + 6 * logits + moved + sorted_again + 5 * size * ours * width, 14)
    if kernels.dtype == FP8:  # inputs are cast on arrival, the activation function writes 8 bits; as for dense layers
        forward = forward + kernels.streaming(3 * ours * h - ours * width, 1)
        backward = backward + kernels.streaming(6 * ours * h + 2 * ours * width, 4)

    whole = size * n * h
    tensor = 0.0 * n
    if mixed.shared_ffn:
        shared = mixed.shared_ffn / t
        plain = products(kernels, stack, n, ((2 * shared, h), (h, shared)))
        gemm = [gemm[0] + plain.forward, gemm[1] + plain.backward]
        weights = weights + plain.weights
        forward = forward + kernels.streaming(size * n * 3 * shared, 2)
        backward = backward + kernels.streaming(size * n * 5 * shared, 2)
        tensor = 2 * spread.tensor.half(whole)  # gathered before, scattered after
    slices = 2 * spread.slices.half(size * ours * h)
    sent = size * mine * h
    out = spread.experts.tokens(
        mine * h * (stack.dispatch_bytes or size), mixed.top_k, mixed.load, once=stack.dispatch_once
    )
    back = spread.experts.tokens(sent, mixed.top_k, mixed.load, once=stack.dispatch_once)
    return Part(
        (gemm[0], gemm[1]),
        (forward, backward),
        (tensor + slices, tensor + slices),
        (out + back, 2 * back),
        grouped.last,
        0.0 * n,
        weights,
    )
