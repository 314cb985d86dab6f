"""One iteration of many valid configurations: layers, pipeline, data parallelism and optimizer put together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...cluster import Cluster
from .activations.fit import Chosen
from .collectives import GroupLinks
from .columns import Columns
from .kernels import Kernels
from .layer.parts import products
from .layer.spread import Spread
from .layer_costs import end_times, layer_times, padded_vocab
from .model import TransformerShape
from .rates import Stack
from .replicas import data_parallel, optimizer_seconds
from .result import TimeParts
from .schedule import pipeline_time, shorter_bubble
from .stages import Stages
from .weights import state_bytes
from .words import DUALPIPE, ONE_F_ONE_B, ZB_V

__all__ = ["TimeColumns", "iteration"]

Floats = NDArray[np.float64]
Stage = tuple[Floats, Floats, Floats]

TENSORS = {False: 12, True: 6}
"""Parameter tensors of a GPT layer (four matrices and their biases, two norms) and of a Llama layer. The optimizer's
step takes the host about one operator for each: its loops over them take 4 us in Python (measured with tensors of a
few bytes on one EPYC core), and one of them launches a copy."""
EXPERT_TENSORS = 6
"""And of a layer with experts, whose experts are one tensor each in grouped products (Transformer Engine has one for
each expert on the device: they are counted as one, since its optimizer takes them together)."""


@dataclass(frozen=True, slots=True, eq=False)
class TimeColumns:
    """`TimeParts`, one array per part, by name, and their sum."""

    parts: dict[str, Floats]
    total: Floats

    def row(self, index: int) -> TimeParts:
        """Parts of one configuration."""
        return TimeParts(**{name: float(column[index]) for name, column in self.parts.items()})


def iteration(
    shape: TransformerShape, cluster: Cluster, kernels: Kernels, stack: Stack, c: Columns, chosen: Chosen | None = None
) -> TimeColumns:
    """Seconds of one iteration and their parts.

    Layers cost the same in all configurations that differ in the rest: each such combination is computed once.
    """
    if chosen is not None:  # `chosen` says all that is recomputed there
        c = replace(c, recompute=np.where(chosen.held.rows, 0, c.recompute))
    sample, back = alike(c)
    few = c.take(sample)
    group = GroupLinks.of(cluster, kernels.rates, few.tp, 1)
    spread = Spread.of(shape, cluster, kernels.rates, few)
    own = (few.microbatch, few.sequence_parallel, few.recompute, spread)
    dense = layer_times(shape, kernels, stack, group, *own)
    mixed = layer_times(shape, kernels, stack, group, *own, mixed=True) if shape.experts else dense
    ends = end_times(shape, kernels, group, few.microbatch, few.sequence_parallel, stack, few.cp)

    p, m = c.pp.astype(float), c.microbatches.astype(float)
    stages = Stages.of_columns(shape, c)
    plain, special = (dense.forward + dense.backward)[back], (mixed.forward + mixed.backward)[back]
    if chosen is not None:
        plain, special = (x + sum(y) for x, y in zip((plain, special), chosen.each, strict=True))
    spent = [x * plain + y * special for x, y in zip(stages.dense, stages.mixed, strict=True)]
    first = (ends.embedding_forward + ends.embedding_backward)[back]
    last = (ends.head_forward + ends.head_backward)[back]
    if shape.mtp_layers:
        joined = _joined(shape, kernels, stack, few)[back]
        last = last * (1 + shape.mtp_layers) + shape.mtp_layers * (special + joined)
    before, behind = spent[0] - spent[1] + first, spent[2] - spent[1] + last  # more than a middle stage
    spread = sum(  # of what the ends take more, what is in all of their chunks
        np.where(given > 0, spent[at] - spent[1], 0.0) for given, at in ((c.first_layers, 0), (c.last_layers, 2))
    )
    both = c.schedule == DUALPIPE  # the first stage and the last are on one device, and take turns
    before, behind = (np.where(both, (before + behind) / 2, x) for x in (before, behind))
    vee = c.schedule == ZB_V  # the first chunk and the last are on the first device
    before, behind = np.where(vee, before + behind, before), np.where(vee, 0.0, behind)
    most = np.where(vee, before, np.maximum(before, behind))
    inside = (p > np.where(vee, 1, 2)) & (most < 0)  # a middle stage is the slowest
    at = [inside, both, (behind > before) & (p > 1) & ~vee]

    def slowest(ends: Stage) -> Floats:
        return np.select(at, [ends[1], (ends[0] + ends[2]) / 2, ends[2]], ends[0])

    counts = slowest(stages.dense), slowest(stages.mixed)
    send = _send_seconds(shape, cluster, kernels, stack, few, group)[back] if (p > 1).any() else 0 * p
    pipe = GroupLinks.of(cluster, kernels.rates, c.pp, c.tp * c.replicas)
    size = kernels.size
    share = np.where(c.sequence_parallel | stack.scatter_gather, c.tp, 1)
    hop = pipe.send(size * c.microbatch * shape.seq / c.cp * shape.hidden / share, cluster, kernels.rates)
    times = pipeline_time(
        spent[1],
        before,
        behind,
        send + hop,
        c.pp,
        c.interleave,
        c.microbatches,
        overlap=stack.overlap_pipeline,
        spread=spread,
    )

    def layers(*of: Floats, stage: tuple[Floats, Floats] = counts) -> Floats:
        found = stage[0] * of[0][back]
        return found + stage[1] * of[1][back] if shape.experts else found

    def both_ways(name: str) -> Floats:
        plain, special = (getattr(one, name) for one in (dense, mixed))
        return layers(plain[0] + plain[1], special[0] + special[1])

    def passes_of(stage: tuple[Floats, Floats]) -> tuple[tuple[Floats, Floats], Floats, Floats]:
        """A stage's forward and backward pass, what it recomputes by choice, and how long it waits for the host."""
        forward = layers(dense.forward, mixed.forward, stage=stage)
        backward = layers(dense.backward, mixed.backward, stage=stage)
        if chosen is None:
            return (forward, backward), 0.0 * p, 0.0 * p
        again, there, home = (stage[0] * plain + stage[1] * special for plain, special in chosen.parts)
        return (forward + there, backward + again + home), again, there + home

    passes, again, waits = passes_of(counts)
    bubble = times.bubble
    if (c.schedule != ONE_F_ONE_B).any():
        middle = stages.dense[1], stages.mixed[1]
        weight = layers(dense.weight, mixed.weight, stage=middle)
        bubble = shorter_bubble(c.schedule, p, passes_of(middle)[0], weight, bubble)
    data = data_parallel(shape, cluster, kernels, stack, c, passes)
    tied = 0.0 * p
    if shape.tied:
        stage = c.tp * c.replicas
        ends_group = GroupLinks.of(cluster, kernels.rates, 2, stage * np.maximum(c.pp - 1, 1), stage)
        volume = state_bytes(stack, kernels.dtype)[1] * padded_vocab(shape, c.tp) * shape.hidden / c.tp
        tied = np.where((p > 1) & ~vee, ends_group.all_reduce(volume), 0.0)
    parts = {
        "forward_gemm": m * layers(dense.gemm[0], mixed.gemm[0]),
        "forward_attention": m * layers(dense.attention[0], mixed.attention[0]),
        "forward_element": m * layers(dense.element[0], mixed.element[0]),
        "backward_gemm": m * layers(dense.gemm[1], mixed.gemm[1]),
        "backward_attention": m * layers(dense.attention[1], mixed.attention[1]),
        "backward_element": m * layers(dense.element[1], mixed.element[1]),
        "recompute": m * (layers(dense.recompute, mixed.recompute) + again),
        "offload": m * waits,
        "tensor_parallel": m * both_ways("tensor"),
        "context_parallel": m * both_ways("context"),
        "expert_parallel": m * both_ways("experts"),
        "launch": m * both_ways("launch"),
        "ends": m * np.where(p == 1, first + last, slowest((first + np.where(vee, last, 0.0), 0.0 * p, last))),
        "bubble": bubble,
        "pipeline_transfer": times.transfer,
        "data_parallel": data,
        "tied_embedding": tied,
        "optimizer": optimizer_seconds(shape, kernels, stack, c),
        "host": stack.iteration_s
        + stack.op_s * (TENSORS[shape.gated] * stages.dense[1] + EXPERT_TENSORS * stages.mixed[1]),
    }
    return TimeColumns(parts, sum(parts.values(), 0 * p))


def alike(c: Columns) -> tuple[Any, Any]:
    """Rows whose layers differ, and for every row which of them is like it."""
    # One integer per combination: `np.unique` sorts integers many times faster than rows.
    key = ((c.tp << 36) + (c.microbatch << 4) + (c.sequence_parallel.astype(np.int64) << 2)) + c.recompute
    _, sample, back = np.unique(key, return_index=True, return_inverse=True)
    if ((c.cp > 1) | (c.ep > 1) | (c.etp > 0)).any():
        more = (c.cp << 40) + (c.ep << 20) + (c.etp << 2) + (c.context << 1) + c.overlap_experts
        further = np.unique(more, return_inverse=True)[1].reshape(-1)
        _, sample, back = np.unique(back.reshape(-1) + len(sample) * further, return_index=True, return_inverse=True)
    return sample, back.reshape(-1)


def _joined(shape: TransformerShape, kernels: Kernels, stack: Stack, c: Columns) -> Floats:
    """Seconds of the projection of a layer that predicts a further token, of the hidden state and of an embedding."""
    n, h = c.microbatch * (shape.seq / c.cp), shape.hidden
    found = products(kernels, stack, n, ((h / c.tp, 2 * h),))
    return found.forward + found.backward


def _send_seconds(
    shape: TransformerShape, cluster: Cluster, kernels: Kernels, stack: Stack, few: Columns, group: GroupLinks
) -> Floats:
    """Gathering an activation that was sent in tensor-parallel shares, where layers want it whole."""
    whole = kernels.size * few.microbatch * shape.seq * shape.hidden
    return np.where(few.sequence_parallel | (not stack.scatter_gather), 0.0, group.half(whole))
