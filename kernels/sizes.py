"""Sizes of a layer, from its shape: bytes passed on, bytes all-reduced, working memory."""

from __future__ import annotations

from .specs import DTYPE_BYTES, N_LABELS, ModelSpec

__all__ = ["activation_bytes", "allreduce_bytes", "allreduces", "output_bytes"]

PAIR_BYTES = 8  # token id and logit, float32 each


def output_bytes(spec: ModelSpec, layer: int) -> int:
    """Bytes per request that layer number `layer` hands on (the hidden state; the answer for the head)."""
    if spec.kind(layer) != "head":
        return spec.seq_len * spec.hidden * DTYPE_BYTES[spec.dtype]
    return N_LABELS * DTYPE_BYTES[spec.dtype] if spec.family == "bert" else spec.seq_len * PAIR_BYTES


def allreduces(spec: ModelSpec, layer: int) -> int:
    """All-reduces in layer number `layer` when it is split: two in a Transformer layer, else one."""
    return 2 if spec.kind(layer) in ("dense", "moe") else 1


def allreduce_bytes(spec: ModelSpec, layer: int, op_size: int) -> int:
    """Bytes per request of each of these all-reduces over `op_size` devices.

    The language head adds up one (token, logit) pair per position and device; the others what they hand on.
    """
    pairs = spec.kind(layer) == "head" and spec.family != "bert"
    return output_bytes(spec, layer) * (op_size if pairs else 1)


def activation_bytes(spec: ModelSpec, layer: int) -> int:
    """Working memory per request of layer number `layer`, unsplit: input, output, widest inner result."""
    width = {
        "embedding": 0,
        "dense": max(4 * spec.hidden, spec.ffn),
        "moe": max(4 * spec.hidden, spec.top_k * (spec.hidden + spec.ffn)),
        "head": 0 if spec.family == "bert" else spec.vocab,
    }[spec.kind(layer)]
    return spec.seq_len * (2 * spec.hidden + width) * DTYPE_BYTES[spec.dtype]
