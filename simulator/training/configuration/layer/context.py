"""Context parallelism: a sequence cut over devices, and what they exchange for attention."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import Kernels
from ..model import TransformerShape
from .spread import Spread

__all__ = ["context_seconds", "pair_width", "ring_bytes", "swapped_bytes"]

Floats = NDArray[np.float64]


def pair_width(shape: TransformerShape) -> int:
    """Numbers of a token's key and value in the attention core, over all heads. Latent attention exchanges them as its
    core takes them."""
    return shape.q_width + shape.out_width if shape.latent else 2 * shape.kv_width


def ring_bytes(shape: TransformerShape, tokens: Any, cp: Any, tp: Any, size: int) -> tuple[Floats, Floats]:
    """Bytes that a device of a ring sends in one layer, forward and backward.

    `tokens` are those of the device, microbatch included. Forward, keys and values go to all others: ``cp - 1`` hops.
    Backward they do so again, and their gradients go along, home at last: ``cp`` hops. Every device has a chunk of the
    beginning and one of the end of a sequence (zigzag), so that causal attention is even.
    """
    n, ring = np.asarray(tokens, dtype=float), np.asarray(cp, dtype=float)
    block = n * pair_width(shape) / np.asarray(tp, dtype=float) * size
    return (ring - 1) * block, np.where(ring > 1, (2 * ring - 1) * block, 0.0)


def swapped_bytes(shape: TransformerShape, tokens: Any, tp: Any, size: int) -> tuple[Floats, Floats]:
    """Bytes of a device's queries, keys and values together, and of the core's output: what it hands around where heads
    are exchanged for sequence, forward. Backward its gradients go the same ways."""
    n = np.asarray(tokens, dtype=float) / np.asarray(tp, dtype=float) * size
    return n * (shape.q_width + pair_width(shape)), n * shape.out_width


def context_seconds(
    shape: TransformerShape, kernels: Kernels, spread: Spread, core: tuple[Floats, Floats], n: Floats, t: Floats
) -> tuple[Floats, Floats]:
    """Seconds that context parallelism adds to a layer, forward and backward. A ring's hops run beside the core's
    blocks, all but the last of which have one; all-to-alls run alone.

    Parameters
    ----------
    shape, kernels, spread
        Model, device and layout.
    core : tuple of array
        Seconds of the attention core, forward and backward.
    n, t : array
        Tokens of a device; tensor-parallel degree.
    """
    cp, size = spread.cp, kernels.size
    hops = np.maximum(cp - 1, 1.0)
    back_hops = np.maximum(cp, 1.0)
    there, back = ring_bytes(shape, n, cp, t, size)
    beside = (cp - 1) / cp

    def hidden(n_bytes: Floats, messages: Floats, work: Floats) -> Floats:
        each = spread.hop(n_bytes / messages)
        return np.where(cp > 1, kernels.beside(messages * each, beside * work), 0.0)

    ring = hidden(there, hops, core[0]), hidden(back, back_hops, core[1])
    inputs, output = swapped_bytes(shape, n, t, size)
    swap = spread.around.even(inputs) + spread.around.even(output)
    return np.where(spread.by_heads, swap, ring[0]), np.where(spread.by_heads, swap, ring[1])
