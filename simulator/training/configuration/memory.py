"""Bytes on the fullest device: parameters, gradients, optimizer, activations in flight, and what passes through."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .activations.choices import Held
from .activations.tensors import has_dropout, score_bytes
from .columns import Columns
from .layer.context import pair_width
from .layer_costs import FULL, NONE, padded_vocab
from .mixture.held import experts_of_stages, kept_by_experts, passing_through_experts
from .model import TransformerShape
from .rates import Stack
from .stages import Stages, stage_layers
from .weights import COPY_BYTES, STATE_BYTES, STEP_BYTES, device_params, layer_params, stage_params, state_bytes
from .words import DUALPIPE, ZB_H1, ZB_V

__all__ = [
    "STATE_BYTES",
    "STEP_BYTES",
    "Memory",
    "activation_bytes",
    "chunks_in_flight",
    "device_params",
    "layer_params",
    "kept_per_layer",
    "layer_again",
    "memory",
    "needed_bytes",
    "outside_bytes",
    "stage_layers",
    "state_bytes",
]

Floats = NDArray[np.float64]


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

    @property
    def rounded(self) -> tuple[Any, ...]:
        """All parts as whole bytes."""
        parts = (self.parameters, self.gradients, self.optimizer, self.activations, self.ends, self.workspace)
        return tuple(np.ceil(part).astype(np.int64) for part in parts)


def outside_bytes(total: Any, stack: Stack) -> Any:
    """Bytes outside the allocator, of its peak."""
    return stack.context_bytes + np.ceil(stack.fragmentation * np.asarray(total)).astype(np.int64)


def needed_bytes(held: Memory, stack: Stack) -> Any:
    """Bytes that the device must have."""
    total: Any = sum(held.rounded)
    return total + outside_bytes(total, stack)


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
    split += size * shape.inner + (1 if narrow else size) * shape.ffn  # of the MLP
    scores = 4.0 * shape.heads if stack.flash else score_bytes(shape, stack, size) * shape.heads * shape.seq
    scores = np.where((again == NONE) | stack.flash, scores, 0.0)
    return n * np.where(again == FULL, size * shape.hidden / r, whole / r + (split + scores) / t)


def _kept(shape: TransformerShape, stack: Stack, size: int, narrow: bool = False) -> tuple[int, int]:
    """Bytes per token of one layer, inside its MLP left out, that tensor parallelism splits, and that only sequence
    parallelism splits."""
    gemm = 1 if narrow else size  # of an input of a matrix
    split = size * (shape.q_width + shape.out_width + pair_width(shape))
    split += shape.out_width if narrow else 0  # attention keeps its output in bf16, too
    whole = (2 * size + 2 * gemm + (2 if has_dropout(shape, stack) else 0)) * shape.hidden  # norms' inputs and outputs
    if shape.latent:
        whole += (size + gemm) * (shape.latent.kv_rank + shape.latent.q_rank) + size * shape.latent.rope_dim
    return split, whole


def kept_per_layer(shape: TransformerShape, stack: Stack, c: Columns, size: int, narrow: bool) -> tuple[Floats, Floats]:
    """`activation_bytes` of a layer with a dense MLP, and of one with experts."""
    own = c.microbatch / c.cp
    dense = activation_bytes(shape, stack, c.tp, own, c.sequence_parallel, c.recompute, size, narrow)
    if shape.experts is None:
        return dense, dense
    t, n = c.tp.astype(float), own * shape.seq
    r = np.where(c.sequence_parallel, t, 1.0)
    split, whole = _kept(shape, stack, size, narrow)
    scores = 4.0 * shape.heads if stack.flash else score_bytes(shape, stack, size) * shape.heads * shape.seq
    scores = np.where((c.recompute == NONE) | stack.flash, scores, 0.0)
    inside = kept_by_experts(shape, c, size, 1 if narrow else size)
    return dense, np.where(
        c.recompute == FULL, n * size * shape.hidden / r, n * (whole / r + (split + scores) / t) + inside
    )


def memory(shape: TransformerShape, stack: Stack, c: Columns, dtype: str, chosen: Held | None = None) -> Memory:
    """The fullest device at its fullest moment, of five: the first stage (most microbatches) in a layer's backward
    pass, or in the embedding's, whose dense gradient meets one chunk less; the second stage, which may have a layer
    more; the last one with its logits; the optimizer's step. `chosen`: what was chosen of what layers hold."""
    t, p = c.tp.astype(float), c.pp.astype(float)
    size, states = (4 if dtype == "fp32" else 2), state_bytes(stack, dtype)
    n = c.microbatch * (shape.seq / c.cp)
    r = np.where(c.sequence_parallel, t, 1.0)
    h, v, chunks = shape.hidden, padded_vocab(shape, t) / t, c.interleave.astype(float)
    stages = Stages.of_columns(shape, c)

    narrow = dtype in COPY_BYTES
    dense, mixed = kept_per_layer(shape, stack, c, size, narrow)
    if chosen is not None:
        dense, mixed = np.where(chosen.rows, chosen.dense, dense), np.where(chosen.rows, chosen.mixed, mixed)
    kept = [
        (plain * dense + special * mixed) / chunks for plain, special in zip(stages.dense, stages.mixed, strict=True)
    ]
    in_first, in_last = chunks_in_flight(c.pp, c.interleave, c.microbatches)
    in_second, _ = chunks_in_flight(c.pp, c.interleave, c.microbatches, 1)
    if c.overlap_experts.any():  # another microbatch's layers are at work beside those of the one
        in_first, in_last, in_second = (x + c.overlap_experts for x in (in_first, in_last, in_second))
    if c.schedule.any():
        kinds = [c.schedule == code for code in (ZB_H1, DUALPIPE, ZB_V)]
        held_by_all = [np.minimum(p, c.microbatches), p + 1, 2 * p]
        in_first, in_last, in_second = (np.select(kinds, held_by_all, x) for x in (in_first, in_last, in_second))
    dropout = (1 if has_dropout(shape, stack) else 0) * n * h / r
    end = (1 + shape.mtp_layers) * (2 * size * n * h / r + 4 * n * v)  # final norm's input and output, fp32 logits
    vee = c.schedule == ZB_V  # both ends are on the first device
    alone = (p == 1) | vee
    further = shape.mtp_layers * (dense if shape.experts is None else mixed)

    backward = _layer_workspace(shape, stack, c, n, size, chosen)
    logits = 2.0 * n * v + size * n * h  # the half-precision copy beside the fp32 one, and the input's gradient
    loss = np.maximum(logits, backward)
    table = size * (v * h + n * h)  # the embedding's gradient is dense before it is added to what is accumulated
    d, apart_over = c.shards.astype(float), c.expert_shards.astype(float)
    shares = [np.where(c.zero >= level, d, 1.0) for level in (3, 2, 1)]
    apart = [np.where(c.zero >= level, apart_over, 1.0) for level in (3, 2, 1)]
    layer = shape.layer_matrix_params / t + shape.latent_params
    experts = experts_of_stages(shape, c, stages)
    if shape.experts is not None:
        own = shape.experts.count * shape.expert_params / (c.ep * c.expert_tensor)
        layer = np.maximum(layer, (shape.attention_params + shape.shared_params) / t + shape.latent_params + own)
    gathered = np.where((c.zero == 3) & c.reshard, 2 * states[0], 0) * layer
    bucket = np.where((c.zero >= 2) & (c.replicas > 1), states[1] * layer, 0.0)
    # Of ZeRO 3 without resharding, the gathered parameters stay beside the shards from the forward pass on.
    whole = np.where((c.zero == 3) & ~c.reshard, states[0], 0)

    first, last = device_params(shape, c.tp, c.pp, stages, vee)
    second = np.where(p > 2, stage_params(shape, c.tp, stages, 1), 0.0)
    embedding = dropout * in_first / chunks
    moments = (  # parameters, those of experts, layers kept, ends, temporaries
        (
            first, experts[0], in_first * kept[0] + np.where(alone, further, 0.0),
            embedding + np.where(alone, end, 0.0), np.where(alone, loss, backward),
        ),
        (first, experts[0], (in_first - 1) * kept[0], embedding, table),
        (
            second, np.where(p > 2, experts[1], 0.0), np.where(p > 2, in_second * kept[1], 0.0), 0.0 * n,
            np.where(p > 2, backward, 0.0),
        ),
        (
            last, experts[2], in_last * kept[2] + np.where(vee, 0.0, further),
            np.where(vee, 0.0, np.where(alone, dropout, 0.0) + end), np.where(vee, backward, loss),
        ),
    )  # fmt: skip
    twice = np.where(c.schedule == DUALPIPE, 2.0, 1.0)  # parameters and gradients: a stage of each direction
    host = np.where(c.offload_optimizer, 0.0, 1.0)
    times = (twice, twice, host)
    copy = COPY_BYTES.get(dtype, 0)
    middle = stages.dense[1] * shape.layer_matrix_params / t
    if shape.experts is not None:
        middle = middle + stages.mixed[1] * (shape.attention_params + shape.shared_params) / t + experts[1]
    copies = copy * middle
    parts: list[tuple[Floats, ...]] = []
    for params, own, layers, ends, work in moments:
        held = [
            (params / share + own / part) * each * often
            for each, share, part, often in zip(states, shares, apart, times, strict=True)
        ]
        held[0] = held[0] + np.where(params > 0, copies, 0.0) + whole * (params + own)
        parts.append((*held, layers, ends, work + gathered + bucket))
    larger = last + experts[2] > first + experts[0]
    most, own = np.where(larger, last, first), np.where(larger, experts[2], experts[0])
    none = 0.0 * n
    held = [
        (most / share + own / part) * each * often
        for each, share, part, often in zip(states, shares, apart, times, strict=True)
    ]
    held[0] = held[0] + copies
    parts.append((*held, none, none, (most / shares[2] + own / apart[2]) * STEP_BYTES[dtype]))
    fullest = [np.broadcast_to(part, n.shape) for part in parts[0]]
    top: Any = sum(fullest)
    for moment in parts[1:]:
        total: Any = sum(moment)
        more = total > top  # strictly: of equal moments the earlier one is told
        fullest = [np.where(more, new, old) for new, old in zip(moment, fullest, strict=True)]
        top = np.maximum(top, total)
    return Memory(*fullest)


def _layer_workspace(
    shape: TransformerShape, stack: Stack, c: Columns, n: Floats, size: int, held: Held | None
) -> Floats:
    """Largest temporary of one layer's backward pass: gradients around the MLP, or around scores in memory, and what
    recomputation brings back."""
    t = c.tp.astype(float)
    mlp = 2 * size * n * shape.hidden + size * n * (2 * shape.inner + shape.ffn) / t
    if shape.experts is not None:
        through = passing_through_experts(shape, c, size)
        mlp = np.maximum(mlp, through) if shape.experts.dense_layers else through
    core = 0.0 * n
    if not stack.flash:
        kept = score_bytes(shape, stack, size)
        scores = n * shape.heads * shape.seq / t
        again = c.recompute != NONE
        if held is not None:
            again = np.where(held.rows, held.scores, again)
        core = scores * (2 * size + np.where(again, kept, 0))
    back = np.where(c.recompute == FULL, layer_again(shape, stack, c, size), 0.0)
    return np.maximum(mlp, core) + (back if held is None else np.where(held.rows, held.back, back))


def layer_again(shape: TransformerShape, stack: Stack, c: Columns, size: int) -> Floats:
    """Bytes of what full recomputation brings back for one layer, scores in memory left out."""
    none = np.zeros_like(c.recompute)
    n = c.microbatch * (shape.seq / c.cp)
    one = activation_bytes(shape, stack, c.tp, c.microbatch / c.cp, c.sequence_parallel, none, size)
    if shape.experts is not None:
        one = np.maximum(*kept_per_layer(shape, stack, replace(c, recompute=none), size, False))
    if not stack.flash:
        one = one - n * score_bytes(shape, stack, size) * shape.heads * shape.seq / c.tp
    return one
