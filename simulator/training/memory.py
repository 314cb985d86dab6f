"""Bytes on the fullest device: parameters, gradients, optimizer, activations in flight, and what passes through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .columns import Columns
from .layer_costs import FULL, NONE, padded_vocab
from .model import TransformerShape
from .rates import Stack

__all__ = ["STATE_BYTES", "Memory", "activation_bytes", "chunks_in_flight", "device_params", "memory"]

Floats = NDArray[np.float64]

STATE_BYTES = {"bf16": (2, 4, 12), "fp16": (2, 2, 16), "fp32": (4, 4, 8)}
"""Bytes per parameter of (parameter, gradient, optimizer) with Adam, in all 18, 20 and 16; Megatron-LM's table of its
distributed optimizer, whose sharded forms 6 + 12/d, 4 + 16/d and 8 + 8/d are `zero` = 1."""


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """Bytes that the allocator has handed out at the peak of the fullest stage, one value per row and part.

    Parameters
    ----------
    parameters, gradients, optimizer : array
        Persistent states.
    activations : array
        What the layers of all microbatches in flight keep for their backward passes.
    ends : array
        What the embedding and the output layer keep.
    workspace : array
        The largest temporary: a layer's backward pass, or logits and their gradient.
    """

    parameters: Floats
    gradients: Floats
    optimizer: Floats
    activations: Floats
    ends: Floats
    workspace: Floats

    @property
    def states(self) -> Floats:
        """Parameters, gradients and optimizer."""
        return self.parameters + self.gradients + self.optimizer

    @property
    def total(self) -> Floats:
        """All parts."""
        return self.states + self.activations + self.ends + self.workspace


def device_params(shape: TransformerShape, tp: Any, pp: Any) -> tuple[Floats, Floats]:
    """Parameters on one device of the first and of the last stage; matrices are split over `tp`, vectors are not.

    A tied embedding is on both ends of a pipeline, as in Megatron.
    """
    t, p = np.asarray(tp, dtype=float), np.asarray(pp, dtype=float)
    fused = shape.ffn + shape.q_width + 2 * shape.kv_width  # biases of column-parallel layers are split
    vectors = 2 * shape.hidden if shape.gated else shape.layer_vector_params - fused + fused / t
    layers = shape.layers / p * (shape.layer_matrix_params / t + vectors)
    vocabulary = padded_vocab(shape, t) * shape.hidden / t
    positions = 0 if shape.gated else shape.seq * shape.hidden
    norm = (1 if shape.gated else 2) * shape.hidden
    alone = p == 1
    first = layers + vocabulary + positions + np.where(alone, norm + (0 if shape.tied else vocabulary), 0)
    last = np.where(alone, first, layers + vocabulary + norm)
    return first, last


def chunks_in_flight(pp: Any, interleave: Any, microbatches: Any) -> tuple[Floats, Floats]:
    """Forward passes of model chunks that the first and the last stage hold at once.

    1F1B: min(p, m) and 1. Interleaved with v chunks per stage: min(pv + p - 1, mv) and min((v - 1) p + 1, mv), so
    that the first stage holds ``L (1 + (p - 1) / (p v))`` layers (Korthikanti et al. 2022, section 4.2.3).
    """
    p, v, m = (np.asarray(x, dtype=float) for x in (pp, interleave, microbatches))
    first = np.where(v > 1, p * v + p - 1, p)
    last = np.where(v > 1, (v - 1) * p + 1, 1.0)
    return np.minimum(first, m * v), np.minimum(last, m * v)


def activation_bytes(
    shape: TransformerShape, stack: Stack, tp: Any, microbatch: Any, sequence_parallel: Any, recompute: Any, size: int
) -> Floats:
    """Bytes that one layer keeps of one microbatch.

    GPT with dropout and stored scores: ``sbh (10 + 24/t + 5as/ht)``, with sequence parallelism ``sbh/t (34 + 5as/h)``,
    with selective recomputation without the last term, with full recomputation ``2sbh`` (Korthikanti et al. 2022,
    Table 2). Fused attention keeps one fp32 number per query and head instead of scores.
    """
    t, n = np.asarray(tp, dtype=float), np.asarray(microbatch, dtype=float) * shape.seq
    again = np.asarray(recompute)
    r = np.where(np.asarray(sequence_parallel, dtype=bool), t, 1.0)
    split, whole = _kept(shape, stack, size)
    scores = 4.0 * shape.heads if stack.flash else _score_bytes(shape, stack, size) * shape.heads * shape.seq
    scores = np.where((again == NONE) | stack.flash, scores, 0.0)
    return n * np.where(again == FULL, size * shape.hidden / r, whole / r + (split + scores) / t)


def _dropout(shape: TransformerShape, stack: Stack) -> bool:
    return (stack.dropout and not shape.gated) if shape.dropout is None else shape.dropout


def _score_bytes(shape: TransformerShape, stack: Stack, size: int) -> int:
    """Per score: the softmax, and with dropout its output and mask."""
    return 2 * size + 1 if _dropout(shape, stack) else size


def _kept(shape: TransformerShape, stack: Stack, size: int) -> tuple[int, int]:
    """Bytes per token of one layer that tensor parallelism splits, and that only sequence parallelism splits."""
    mlp = shape.inner + shape.ffn  # inputs of the activation function and of the last matrix
    split = size * (2 * shape.q_width + 2 * shape.kv_width + mlp)
    whole = (4 * size + (2 if _dropout(shape, stack) else 0)) * shape.hidden  # both norms' inputs and outputs
    return split, whole


def memory(shape: TransformerShape, stack: Stack, c: Columns, dtype: str) -> Memory:
    """The fullest device: the first stage holds most microbatches, the last one the logits."""
    t, p, d = (x.astype(float) for x in (c.tp, c.pp, c.dp))
    size, states = (4 if dtype == "fp32" else 2), STATE_BYTES[dtype]
    n = c.microbatch.astype(float) * shape.seq
    r = np.where(c.sequence_parallel, t, 1.0)
    h, v = shape.hidden, padded_vocab(shape, t) / t
    layers = shape.layers / p

    per_layer = activation_bytes(shape, stack, c.tp, c.microbatch, c.sequence_parallel, c.recompute, size)
    in_first, in_last = chunks_in_flight(c.pp, c.interleave, c.microbatches)
    chunk = layers / c.interleave * per_layer
    dropout = (1 if _dropout(shape, stack) else 0) * n * h / r
    end = 2 * size * n * h / r + 4 * n * v  # final norm's input and output, fp32 logits
    alone = p == 1

    backward = _layer_workspace(shape, stack, c, n, size)
    shares = [np.where(c.zero >= level, d, 1.0) for level in (3, 2, 1)]
    gathered = np.where(c.zero == 3, 2 * states[0], 0) * shape.layer_matrix_params / t
    bucket = np.where((c.zero >= 2) & (d > 1), states[1] * shape.layer_matrix_params / t, 0.0)

    first, last = device_params(shape, c.tp, c.pp)
    logits = 2.0 * n * v + size * n * h  # the half-precision copy beside the fp32 one, and the input's gradient
    parts: list[tuple[Floats, ...]] = []
    loss = np.maximum(logits, backward)
    stages = (
        (
            first,
            in_first,
            dropout * in_first / c.interleave + np.where(alone, end, 0.0),
            np.where(alone, loss, backward),
        ),
        (last, in_last, np.where(alone, dropout, 0.0) + end, loss),
    )
    for params, chunks, ends, work in stages:
        held = [params * each / share for each, share in zip(states, shares, strict=True)]
        parts.append((*held, chunks * chunk, ends, work + gathered + bucket))
    fuller: Any = sum(parts[0]) >= sum(parts[1])
    fullest: list[Floats] = [np.where(fuller, a, b) for a, b in zip(*parts, strict=True)]
    return Memory(*fullest)


def _layer_workspace(shape: TransformerShape, stack: Stack, c: Columns, n: Floats, size: int) -> Floats:
    """Largest temporary of one layer's backward pass: gradients around the MLP, or around scores in memory, and what
    recomputation brings back."""
    t = c.tp.astype(float)
    mlp = 2 * size * n * shape.hidden + size * n * (2 * shape.inner + shape.ffn) / t
    core = 0.0 * n
    if not stack.flash:
        kept = _score_bytes(shape, stack, size)
        scores = n * shape.heads * shape.seq / t
        core = scores * (2 * size + np.where(c.recompute == NONE, 0, kept))
    none = np.zeros_like(c.recompute)
    one = activation_bytes(shape, stack, c.tp, c.microbatch, c.sequence_parallel, none, size)
    if not stack.flash:
        one = one - n * _score_bytes(shape, stack, size) * shape.heads * shape.seq / t  # counted in `core`
    return np.maximum(mlp, core) + np.where(c.recompute == FULL, one, 0.0)
