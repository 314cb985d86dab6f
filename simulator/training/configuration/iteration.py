"""One iteration of many valid configurations: layers, pipeline, data parallelism and optimizer put together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...cluster import Cluster
from .collectives import GroupLinks
from .columns import Columns
from .kernels import FP8, Kernels
from .layer_costs import end_times, layer_times, padded_vocab
from .memory import device_params, layer_params, stage_layers, state_bytes
from .model import TransformerShape
from .rates import Stack
from .result import TimeParts
from .schedule import pipeline_time

__all__ = ["TimeColumns", "iteration"]

Floats = NDArray[np.float64]

BUCKET = (40e6, 1e6)
"""Parameters that Megatron-LM reduces at once: at least, and per data-parallel rank (its ``bucket_size`` is
``max(40000000, 1000000 * data_parallel_size)``)."""


TENSORS = {False: 12, True: 6}
"""Parameter tensors of a GPT layer (four matrices and their biases, two norms) and of a Llama layer. The optimizer's
step takes the host about one operator for each: its loops over them take 4 us in Python (measured with tensors of a
few bytes on one EPYC core), and one of them launches a copy."""
STEP_TRAFFIC = {"bf16": 30, "fp16": 48, "fp32": 24, "fp8": 30}
"""Bytes moved per parameter in an optimizer's step, but for gradients in their own type: Adam's three numbers, read and
written (24); the copy to half precision (6); with loss scaling, in fp16, gradients are copied to fp32 (2 + 4), unscaled
and checked (8), and read from that copy by the norm and by Adam (8, of which 4 are counted as gradients in fp16).
Clipping (8) runs only where the norm is above its bound."""


@dataclass(frozen=True, slots=True, eq=False)
class TimeColumns:
    """`TimeParts`, one array per part, by name, and their sum."""

    parts: dict[str, Floats]
    total: Floats

    def row(self, index: int) -> TimeParts:
        """Parts of one configuration."""
        return TimeParts(**{name: float(column[index]) for name, column in self.parts.items()})


def iteration(shape: TransformerShape, cluster: Cluster, kernels: Kernels, stack: Stack, c: Columns) -> TimeColumns:
    """Seconds of one iteration and their parts.

    Layers cost the same in all configurations of equal (tp, microbatch, sequence_parallel, recompute): each such
    combination is computed once.
    """
    # One integer per combination: `np.unique` sorts integers many times faster than rows.
    key = ((c.tp << 36) + (c.microbatch << 4) + (c.sequence_parallel.astype(np.int64) << 2)) + c.recompute
    _, sample, back = np.unique(key, return_index=True, return_inverse=True)
    back = back.reshape(-1)
    few = c.take(sample)
    group = GroupLinks.of(cluster, kernels.rates, few.tp, 1)
    layer = layer_times(shape, kernels, stack, group, few.microbatch, few.sequence_parallel, few.recompute)
    ends = end_times(shape, kernels, group, few.microbatch, few.sequence_parallel, stack)

    p, m = c.pp.astype(float), c.microbatches.astype(float)
    middle, outer = stage_layers(shape, c.pp, c.interleave)
    first = (ends.embedding_forward + ends.embedding_backward)[back]
    last = (ends.head_forward + ends.head_backward)[back]
    one = (layer.forward + layer.backward)[back]
    fewer = (middle - outer) * one
    inside = (p > 2) & (np.maximum(first, last) < fewer)  # a middle stage is the slowest
    count = np.where(inside, middle, outer)  # of the slowest stage
    send = _send_seconds(shape, cluster, kernels, stack, few, group)[back] if (p > 1).any() else 0 * p
    pipe = GroupLinks.of(cluster, kernels.rates, c.pp, c.tp * c.dp)
    size = kernels.size
    share = np.where(c.sequence_parallel | stack.scatter_gather, c.tp, 1)
    hop = pipe.send(size * c.microbatch * shape.seq * shape.hidden / share, cluster, kernels.rates)
    times = pipeline_time(
        middle * one, first - fewer, last - fewer, send + hop, c.pp, c.interleave, c.microbatches,
        overlap=stack.overlap_pipeline,
    )  # fmt: skip

    data = _data_parallel(shape, cluster, kernels, stack, c, count * layer.forward[back], count * layer.backward[back])
    params = _most_params(shape, c)
    shared = np.where(c.zero >= 1, c.dp, 1)
    gradient = state_bytes(stack, kernels.dtype)[1]
    per_param = 2 * gradient + STEP_TRAFFIC[kernels.dtype]  # the norm and Adam read gradients
    narrowed = 4 if kernels.dtype == FP8 else 0  # to 8 bits and their transpose, once an iteration, on every device
    tied = 0.0 * p
    if shape.tied:
        stage = c.tp * c.dp
        ends_group = GroupLinks.of(cluster, kernels.rates, 2, stage * np.maximum(c.pp - 1, 1), stage)
        volume = gradient * padded_vocab(shape, c.tp) * shape.hidden / c.tp
        tied = np.where(p > 1, ends_group.all_reduce(volume), 0.0)

    def layers(column: Floats) -> Floats:
        return m * count * column[back]

    parts = {
        "forward_gemm": layers(layer.gemm[0]),
        "forward_attention": layers(layer.attention[0]),
        "forward_element": layers(layer.element[0]),
        "backward_gemm": layers(layer.gemm[1]),
        "backward_attention": layers(layer.attention[1]),
        "backward_element": layers(layer.element[1]),
        "recompute": layers(layer.recompute),
        "tensor_parallel": layers(layer.tensor[0] + layer.tensor[1]),
        "launch": layers(layer.launch[0] + layer.launch[1]),
        "ends": m * np.where(p == 1, first + last, np.where(inside, 0.0, np.maximum(first, last))),
        "bubble": times.bubble,
        "pipeline_transfer": times.transfer,
        "data_parallel": data,
        "tied_embedding": tied,
        "optimizer": kernels.streaming(params * (per_param / shared + gradient + narrowed)),
        "host": stack.iteration_s + stack.op_s * TENSORS[shape.gated] * middle,
    }
    return TimeColumns(parts, sum(parts.values(), 0 * p))


def _most_params(shape: TransformerShape, c: Columns) -> Floats:
    """Parameters of the device that has most."""
    ends = np.maximum(*device_params(shape, c.tp, c.pp, c.interleave))
    middle = stage_layers(shape, c.pp, c.interleave)[0] * layer_params(shape, c.tp)
    return np.where(c.pp > 2, np.maximum(ends, middle), ends)


def _flat_traffic(gradient: int) -> int:
    """Bytes moved per parameter and microbatch around a flat tensor (`Stack.flat`): gradients are copied into it
    (2 + 2), cast to the type in which they are reduced if that is another, and divided by the devices there (PyTorch
    2.1, torch/distributed/fsdp/_runtime_utils.py)."""
    return 4 + (2 + gradient if gradient > 2 else 0) + 2 * gradient


def _send_seconds(
    shape: TransformerShape, cluster: Cluster, kernels: Kernels, stack: Stack, few: Columns, group: GroupLinks
) -> Floats:
    """Gathering an activation that was sent in tensor-parallel shares, where layers want it whole."""
    whole = kernels.size * few.microbatch * shape.seq * shape.hidden
    return np.where(few.sequence_parallel | (not stack.scatter_gather), 0.0, group.half(whole))


def _data_parallel(
    shape: TransformerShape,
    cluster: Cluster,
    kernels: Kernels,
    stack: Stack,
    c: Columns,
    forward: Floats,
    backward: Floats,
) -> Floats:
    """Exposed seconds of data parallelism.

    ZeRO 0 all-reduces gradients once; 1 reduce-scatters gradients and gathers parameters once; 2 reduces the
    gradients of every microbatch, since nobody keeps all of them; 3 also gathers parameters for every forward and
    backward pass. Overlapped, a pass hides all but one layer's or bucket's share, as far as it lasts; ZeRO 2 and 3
    always overlap (DeepSpeed, FSDP). Gradients and parameters travel in Megatron's buckets of 40 million parameters,
    or one million per data-parallel rank (ZeRO 2 and 3: layer by layer): nothing hides the last one's gradients and
    the first one's parameters.
    """
    group = GroupLinks.of(cluster, kernels.rates, c.dp, c.tp)
    params = _most_params(shape, c)
    parameter, gradient, _ = state_bytes(stack, kernels.dtype)
    bucket = np.maximum(BUCKET[0], BUCKET[1] * c.dp)
    buckets = np.where(c.zero >= 2, np.ceil(shape.layers / c.pp), np.ceil(params / bucket))
    layer = np.minimum(c.pp / shape.layers, 1.0)  # of a stage's pass
    share = np.where(c.zero >= 2, layer, np.minimum(np.maximum(layer, bucket / params), 1.0))
    m = c.microbatches.astype(float)

    def exposed(seconds: Floats, work: Floats, overlapped: bool) -> Floats:
        if not overlapped:
            return seconds
        return share * seconds + kernels.beside((1 - share) * seconds, (1 - share) * work)

    reduce, scatter = group.all_reduce(gradient * params), group.half(gradient * params, buckets)
    gather = group.half(parameter * params, buckets)
    plain = exposed(reduce, backward, stack.overlap_data)
    once = exposed(scatter, backward, stack.overlap_data) + exposed(gather, forward, stack.overlap_data)
    gathered = exposed(gather, forward, stack.overlap_data)
    copies = kernels.streaming(_flat_traffic(gradient) * params) if stack.flat else 0.0
    every = m * (exposed(scatter, backward, True) + copies) + gathered
    full = m * (exposed(gather, forward, True) + exposed(gather + scatter, backward, True) + copies)
    return np.select([c.zero == 0, c.zero == 1, c.zero == 2], [plain, once, every], full)
