"""Seconds of what replicas of a model do together: gradients, parameters, and the optimizer's step."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...cluster import Cluster
from .collectives import GroupLinks
from .columns import Columns
from .kernels import FP8, Kernels
from .mixture.held import experts_of_stages
from .model import TransformerShape
from .rates import Stack
from .stages import Stages
from .weights import device_params, stage_params, state_bytes
from .words import ZB_V

__all__ = ["data_parallel", "most_params", "optimizer_seconds"]

Floats = NDArray[np.float64]

BUCKET = (40e6, 1e6)
"""Parameters that Megatron-LM reduces at once: at least, and per data-parallel rank (its ``bucket_size`` is
``max(40000000, 1000000 * data_parallel_size)``)."""
STEP_TRAFFIC = {"bf16": 30, "fp16": 48, "fp32": 24, "fp8": 30}
"""Bytes moved per parameter in an optimizer's step, but for gradients in their own type: Adam's three numbers, read and
written (24); the copy to half precision (6); with loss scaling, in fp16, gradients are copied to fp32 (2 + 4), unscaled
and checked (8), and read from that copy by the norm and by Adam (8, of which 4 are counted as gradients in fp16).
Clipping (8) runs only where the norm is above its bound."""
HOST = (25e9, 10e9)
"""Bytes per second between a device and its host, and of its share of the host's memory, in which the host's Adam
works: guesses (PCIe 4.0 x16 has 32 GB/s; eight devices share a host with some hundred). Host memory is not limited."""


def most_params(shape: TransformerShape, c: Columns) -> tuple[Floats, Floats]:
    """Parameters of the device that has most: routed experts left out, and those of experts."""
    stages = Stages.of_columns(shape, c)
    first, last = device_params(shape, c.tp, c.pp, stages, c.schedule == ZB_V)
    middle = stage_params(shape, c.tp, stages, 1)
    if shape.experts is None:
        ends = np.maximum(first, last)
        return np.where(c.pp > 2, np.maximum(ends, middle), ends), 0.0 * first
    experts = experts_of_stages(shape, c, stages)
    own, routed = first, experts[0]
    for params, special, there in ((last, experts[2], True), (middle, experts[1], c.pp > 2)):
        more = there & (params + special > own + routed)
        own, routed = np.where(more, params, own), np.where(more, special, routed)
    return own, routed


def optimizer_seconds(shape: TransformerShape, kernels: Kernels, stack: Stack, c: Columns) -> Floats:
    """Norms and the Adam step; on the host, gradients go there and parameters come back."""
    params, routed = most_params(shape, c)
    shared, apart = np.where(c.zero >= 1, c.shards, 1), np.where(c.zero >= 1, c.expert_shards, 1)
    parameter, gradient, _ = state_bytes(stack, kernels.dtype)
    per_param = 2 * gradient + STEP_TRAFFIC[kernels.dtype]  # the norm and Adam read gradients
    narrowed = 4 if kernels.dtype == FP8 else 0  # to 8 bits and their transpose, once an iteration, on every device
    here = kernels.streaming(
        params * (per_param / shared + gradient + narrowed) + routed * (per_param / apart + gradient + narrowed)
    )
    if not c.offload_optimizer.any():
        return here
    part = params / shared + routed / apart
    moved = part * (gradient + parameter) / HOST[0] + part * STEP_TRAFFIC[kernels.dtype] / HOST[1]
    there = moved + kernels.streaming((params + routed) * (2 * gradient + narrowed))
    return np.where(c.offload_optimizer, there, here)


def _flat_traffic(gradient: int) -> int:
    """Bytes moved per parameter and microbatch around a flat tensor (`Stack.flat`): gradients are copied into it
    (2 + 2), cast to the type in which they are reduced if that is another, and divided by the devices there (PyTorch
    2.1, torch/distributed/fsdp/_runtime_utils.py)."""
    return 4 + (2 + gradient if gradient > 2 else 0) + 2 * gradient


def data_parallel(
    shape: TransformerShape, cluster: Cluster, kernels: Kernels, stack: Stack, c: Columns, work: tuple[Floats, Floats]
) -> Floats:
    """Exposed seconds of data parallelism; `work`: seconds of a microbatch's layers, forward and backward.

    Gradients are reduced over data- and context-parallel devices alike, those of experts over the devices that hold the
    same ones. ZeRO 0 all-reduces gradients once; 1 reduce-scatters gradients and gathers parameters once; 2 reduces the
    gradients of every microbatch, since nobody keeps all of them; 3 also gathers parameters for every forward and
    backward pass, for the forward pass alone where they are kept until then. Where groups smaller than all replicas
    share (HSDP), they all-reduce their shares with each other after. Overlapped, a pass hides all but one layer's or
    bucket's share, as far as it lasts; ZeRO 2 and 3 always overlap (DeepSpeed, FSDP). Gradients and parameters travel
    in Megatron's buckets of 40 million parameters, or one million per data-parallel rank (ZeRO 2 and 3: layer by
    layer): nothing hides the last one's gradients and the first one's parameters.
    """
    forward, backward = work
    params, routed = most_params(shape, c)
    parameter, gradient, _ = state_bytes(stack, kernels.dtype)
    bucket = np.maximum(BUCKET[0], BUCKET[1] * c.replicas)
    buckets = np.where(c.zero >= 2, np.ceil(shape.layers / c.pp), np.ceil(params / bucket))
    layer = np.minimum(c.pp / shape.layers, 1.0)  # of a stage's pass
    share = np.where(c.zero >= 2, layer, np.minimum(np.maximum(layer, bucket / (params + routed)), 1.0))
    m = c.microbatches.astype(float)

    def exposed(seconds: Floats, work: Floats, overlapped: bool) -> Floats:
        if not overlapped:
            return seconds
        return share * seconds + kernels.beside((1 - share) * seconds, (1 - share) * work)

    def of(size: Any, replicas: Any, stride: Any, amount: Floats, messages: Floats) -> tuple[Floats, Floats, Floats]:
        everyone = GroupLinks.of(cluster, kernels.rates, replicas, stride)
        group = everyone
        reduced = everyone.all_reduce(gradient * amount)
        scatter = everyone.half(gradient * amount, messages)
        if (size != replicas).any():
            group = GroupLinks.of(cluster, kernels.rates, size, stride)
            across = GroupLinks.of(cluster, kernels.rates, np.maximum(replicas // size, 1), stride * size)
            scatter = group.half(gradient * amount, messages) + across.all_reduce(gradient * amount / size)
        return reduced, scatter, group.half(parameter * amount, messages)

    reduce, scatter, gather = of(c.shards, c.replicas, c.tp, params, buckets)
    if shape.experts is not None:
        stride = c.ep * c.expert_tensor
        messages = np.where(c.zero >= 2, buckets, np.ceil(routed / bucket))
        more = of(c.expert_shards, c.expert_replicas, stride, routed, messages)
        reduce, scatter, gather = reduce + more[0], scatter + more[1], gather + more[2]
    plain = exposed(reduce, backward, stack.overlap_data)
    once = exposed(scatter, backward, stack.overlap_data) + exposed(gather, forward, stack.overlap_data)
    gathered = exposed(gather, forward, stack.overlap_data)
    copies = kernels.streaming(_flat_traffic(gradient) * (params + routed)) if stack.flat else 0.0
    every = m * (exposed(scatter, backward, True) + copies) + gathered
    again = np.where(c.reshard, gather, 0.0)
    full = m * (exposed(gather, forward, True) + exposed(again + scatter, backward, True) + copies)
    return np.select([c.zero == 0, c.zero == 1, c.zero == 2], [plain, once, every], full)
