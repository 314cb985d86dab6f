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

__all__ = [
    "STATE_BYTES",
    "STEP_BYTES",
    "Memory",
    "activation_bytes",
    "chunks_in_flight",
    "device_params",
    "layer_params",
    "memory",
    "stage_layers",
    "state_bytes",
]

Floats = NDArray[np.float64]

STATE_BYTES = {"bf16": (2, 4, 12), "fp16": (2, 2, 12), "fp32": (4, 4, 8), "fp8": (2, 4, 12)}
"""Bytes per parameter of (parameter, gradient, optimizer) with Adam that live through an iteration."""
STEP_BYTES = {"bf16": 0, "fp16": 4, "fp32": 0, "fp8": 0}
"""And of the optimizer's step alone: fp16 gradients are copied to fp32, and freed before the next forward pass. With
them it is Megatron-LM's table of its distributed optimizer: 18, 20 and 16; sharded (`zero` = 1) 6 + 12/d, 4 + 16/d
and 8 + 8/d."""
COPY_BYTES = {"fp8": 2}
"""Bytes per parameter of a layer's matrices beside the bf16 ones: the 8-bit copy and its transpose, which Transformer
Engine keeps from the first microbatch on (Hopper multiplies 8-bit matrices in one layout only)."""


def state_bytes(stack: Stack, dtype: str) -> tuple[int, int, int]:
    """`STATE_BYTES`, with the gradients of the training software."""
    parameter, gradient, optimizer = STATE_BYTES[dtype]
    return parameter, stack.gradient_bytes or gradient, optimizer


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
        The largest temporary: a layer's backward pass, logits and their gradient, the embedding's gradient, or the
        optimizer's.
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


def stage_layers(shape: TransformerShape, pp: Any, interleave: Any = 1) -> tuple[Floats, Floats]:
    """Layers of a middle stage, and of the first and of the last.

    As many everywhere; or, where only ``layers + 2`` divides, one less at both ends, whose embedding and output layer
    count as one each (Megatron's ``--account-for-embedding-in-pipeline-split`` and ``-loss-``).
    """
    p, v = np.asarray(pp, dtype=float), np.asarray(interleave, dtype=float)
    uneven = np.where(shape.layers % (p * v) != 0, 1.0, 0.0)
    middle = (shape.layers + 2 * uneven) / p
    return middle, middle - uneven


def layer_params(shape: TransformerShape, tp: Any) -> Floats:
    """Parameters of one layer on one device; matrices are split over `tp`, vectors are not."""
    t = np.asarray(tp, dtype=float)
    fused = shape.ffn + shape.q_width + 2 * shape.kv_width  # biases of column-parallel layers are split
    vectors = 2 * shape.hidden if shape.gated else shape.layer_vector_params - fused + fused / t
    return shape.layer_matrix_params / t + vectors


def device_params(shape: TransformerShape, tp: Any, pp: Any, interleave: Any = 1) -> tuple[Floats, Floats]:
    """Parameters on one device of the first and of the last stage. A tied embedding is on both ends of a pipeline, as
    in Megatron."""
    t, p = np.asarray(tp, dtype=float), np.asarray(pp, dtype=float)
    layers = stage_layers(shape, pp, interleave)[1] * layer_params(shape, tp)
    vocabulary = padded_vocab(shape, t) * shape.hidden / t
    positions = 0 if shape.gated else shape.seq * shape.hidden
    norm = (1 if shape.gated else 2) * shape.hidden
    alone = p == 1
    first = layers + vocabulary + positions + np.where(alone, norm + (0 if shape.tied else vocabulary), 0)
    last = np.where(alone, first, layers + vocabulary + norm)
    return first, last


def chunks_in_flight(pp: Any, interleave: Any, microbatches: Any, stage: int = 0) -> tuple[Floats, Floats]:
    """Forward passes of model chunks that a stage (the first) and the last stage hold at once.

    1F1B: min(p - stage, m) and 1. Interleaved with v chunks per stage: min(pv + p - 1 - 2 stage, mv) and
    min((v - 1) p + 1, mv), so that the first stage holds ``L (1 + (p - 1) / (p v))`` layers (Korthikanti et al. 2022,
    section 4.2.3).
    """
    p, v, m = (np.asarray(x, dtype=float) for x in (pp, interleave, microbatches))
    first = np.where(v > 1, p * v + p - 1 - 2 * stage, p - stage)
    last = np.where(v > 1, (v - 1) * p + 1, 1.0)
    return np.minimum(first, m * v), np.minimum(last, m * v)


def activation_bytes(
    shape: TransformerShape,
    stack: Stack,
    tp: Any,
    microbatch: Any,
    sequence_parallel: Any,
    recompute: Any,
    size: int,
    narrow: bool = False,
) -> Floats:
    """Bytes that one layer keeps of one microbatch.

    GPT with dropout and stored scores: ``sbh (10 + 24/t + 5as/ht)``, with sequence parallelism ``sbh/t (34 + 5as/h)``,
    with selective recomputation without the last term, with full recomputation ``2sbh`` (Korthikanti et al. 2022,
    Table 2). Fused attention keeps one fp32 number per query and head instead of scores. `narrow`: inputs of matrices
    are kept in 8 bits.
    """
    t, n = np.asarray(tp, dtype=float), np.asarray(microbatch, dtype=float) * shape.seq
    again = np.asarray(recompute)
    r = np.where(np.asarray(sequence_parallel, dtype=bool), t, 1.0)
    split, whole = _kept(shape, stack, size, narrow)
    scores = 4.0 * shape.heads if stack.flash else _score_bytes(shape, stack, size) * shape.heads * shape.seq
    scores = np.where((again == NONE) | stack.flash, scores, 0.0)
    return n * np.where(again == FULL, size * shape.hidden / r, whole / r + (split + scores) / t)


def _dropout(shape: TransformerShape, stack: Stack) -> bool:
    return (stack.dropout and not shape.gated) if shape.dropout is None else shape.dropout


def _score_bytes(shape: TransformerShape, stack: Stack, size: int) -> int:
    """Per score: the softmax, and with dropout its output and mask."""
    return 2 * size + 1 if _dropout(shape, stack) else size


def _kept(shape: TransformerShape, stack: Stack, size: int, narrow: bool = False) -> tuple[int, int]:
    """Bytes per token of one layer that tensor parallelism splits, and that only sequence parallelism splits."""
    gemm = 1 if narrow else size  # of an input of a matrix
    split = size * (
        2 * shape.q_width + 2 * shape.kv_width + shape.inner
    )  # attention, and inputs of the activation function
    split += gemm * shape.ffn + (shape.q_width if narrow else 0)  # attention keeps its output in bf16, too
    whole = (2 * size + 2 * gemm + (2 if _dropout(shape, stack) else 0)) * shape.hidden  # norms' inputs and outputs
    return split, whole


def memory(shape: TransformerShape, stack: Stack, c: Columns, dtype: str) -> Memory:
    """The fullest device at its fullest moment, of five: the first stage (most microbatches) in a layer's backward
    pass, or in the embedding's, whose dense gradient meets one chunk less; the second stage, which may have a layer
    more; the last one with its logits; the optimizer's step."""
    t, p, d = (x.astype(float) for x in (c.tp, c.pp, c.dp))
    size, states = (4 if dtype == "fp32" else 2), state_bytes(stack, dtype)
    n = c.microbatch.astype(float) * shape.seq
    r = np.where(c.sequence_parallel, t, 1.0)
    h, v, chunks = shape.hidden, padded_vocab(shape, t) / t, c.interleave.astype(float)
    middle, outer = stage_layers(shape, c.pp, c.interleave)

    narrow = dtype in COPY_BYTES
    per_layer = activation_bytes(shape, stack, c.tp, c.microbatch, c.sequence_parallel, c.recompute, size, narrow)
    in_first, in_last = chunks_in_flight(c.pp, c.interleave, c.microbatches)
    in_second, _ = chunks_in_flight(c.pp, c.interleave, c.microbatches, 1)
    dropout = (1 if _dropout(shape, stack) else 0) * n * h / r
    end = 2 * size * n * h / r + 4 * n * v  # final norm's input and output, fp32 logits
    alone = p == 1

    backward = _layer_workspace(shape, stack, c, n, size)
    logits = 2.0 * n * v + size * n * h  # the half-precision copy beside the fp32 one, and the input's gradient
    loss = np.maximum(logits, backward)
    table = size * (v * h + n * h)  # the embedding's gradient is dense before it is added to what is accumulated
    shares = [np.where(c.zero >= level, d, 1.0) for level in (3, 2, 1)]
    gathered = np.where(c.zero == 3, 2 * states[0], 0) * shape.layer_matrix_params / t
    bucket = np.where((c.zero >= 2) & (d > 1), states[1] * shape.layer_matrix_params / t, 0.0)

    first, last = device_params(shape, c.tp, c.pp, c.interleave)
    second = np.where(p > 2, middle * layer_params(shape, c.tp), 0.0)
    embedding = dropout * in_first / chunks
    moments = (  # parameters, layers kept, ends, temporaries
        (first, in_first * outer / chunks, embedding + np.where(alone, end, 0.0), np.where(alone, loss, backward)),
        (first, (in_first - 1) * outer / chunks, embedding, table),
        (second, np.where(p > 2, in_second * middle / chunks, 0.0), 0.0 * n, np.where(p > 2, backward, 0.0)),
        (last, in_last * outer / chunks, np.where(alone, dropout, 0.0) + end, loss),
    )
    parts: list[tuple[Floats, ...]] = []
    copies = COPY_BYTES.get(dtype, 0) * middle * shape.layer_matrix_params / t
    for params, kept, ends, work in moments:
        held = [params * each / share for each, share in zip(states, shares, strict=True)]
        held[0] = held[0] + np.where(params > 0, copies, 0.0)
        parts.append((*held, kept * per_layer, ends, work + gathered + bucket))
    most, none = np.maximum(first, last), 0.0 * n
    held = [most * each / share for each, share in zip(states, shares, strict=True)]
    held[0] = held[0] + copies
    parts.append((*held, none, none, most * STEP_BYTES[dtype] / shares[2]))
    fullest = [np.broadcast_to(part, n.shape) for part in parts[0]]
    top: Any = sum(fullest)
    for moment in parts[1:]:
        total: Any = sum(moment)
        more = total > top  # strictly: of equal moments the earlier one is told
        fullest = [np.where(more, new, old) for new, old in zip(moment, fullest, strict=True)]
        top = np.maximum(top, total)
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
