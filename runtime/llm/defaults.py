"""vLLM's defaults: memory beside weights and KV by the device, scheduling and prefix caching by the version."""

from __future__ import annotations

from ...profiles.llm.cost.host import ASYNC_SINCE, version_in
from ...profiles.llm.decoder import DecoderSpec
from ...profiles.llm.engine_memory import RUNTIME_BYTES, budgets, other_bytes

__all__ = [
    "GIB",
    "RUNTIME_BYTES",
    "asynchronous",
    "budgets",
    "device_memory",
    "other_bytes",
    "prefix_caching",
    "trial_bytes",
    "version_in",
]

GIB = 2**30

CACHING_SINCE = (0, 8)
"""First version of vLLM whose default engine (V1) finds blocks again by their content unless told not to; before, V0
did so only if told to."""

MEMORY_GIB = {
    "RTX PRO 6000": 94.97,
    "RTX 6000 Ada": 47.5,
    "RTX A6000": 47.5,
    "RTX A5000": 23.5,
    "RTX 5090": 31.4,
    "RTX 4090": 23.52,
    "RTX 3090": 23.58,
    "GB200": 184.0,
    "B200": 178.4,
    "H200": 139.8,
    "H100": 79.2,
    "A100-SXM4-40": 39.6,
    "A100": 79.3,
    "L40S": 44.4,
    "L40": 44.4,
    "L4": 22.0,
    "A10G": 22.0,
    "V100": 31.7,
}
"""Memory that drivers report to programs, GiB, by a part of the device's name: what logs of vLLM and PyTorch print, a
percent or two below the name on the box. Longer names first."""

NON_TORCH_BYTES = int(0.16 * GIB)
"""What CUDA libraries take outside PyTorch's pool during a trial step; the context itself is there before vLLM begins
to count (vLLM pull request 12126: 0.16 GiB)."""
SAMPLER_BYTES = 41
"""Bytes of the sampler's peak per sequence and word: logits, their copy in fp32, sorted with indices, probabilities and
their sums. vLLM pull request 10511: 1.26 GiB for 256 sequences of 128,256 words, under tp 1 and tp 2 alike."""


def device_memory(name: str) -> int:
    """Bytes of memory of a device whose name contains one that is known; 0 if none does."""
    said = name.lower()
    for part in sorted(MEMORY_GIB, key=len, reverse=True):
        if all(word in said for word in part.lower().split()):
            return int(MEMORY_GIB[part] * GIB)
    return 0


def trial_bytes(model: DecoderSpec, tp: int, batched: int, seqs: int, *, bf16_ends: bool, nccl: int = 0) -> int:
    """Memory beside weights and KV, as vLLM V1 measures it where `seqs` is known to be what the engine was given.

    CUDA's libraries, NCCL's buffers, and the larger of two peaks in bf16: one layer's activations of `batched` tokens,
    or the sampler's for `seqs` sequences. With experts a layer's are those of every token's experts.
    """
    wide = 3 if model.gated else 2
    inner = model.experts_per_token * model.moe_ffn if model.moe_layers else model.ffn
    gathered = model.experts_per_token * model.hidden if model.moe_layers else 0
    layer = batched * 2 * (2 * model.hidden + wide * -(-inner // tp) + gathered)
    ends = (model.embedding_weights + model.head_weights) // tp if bf16_ends else 0
    return NON_TORCH_BYTES + nccl + max(layer, seqs * model.vocab * SAMPLER_BYTES) + ends


def asynchronous(version: str, pp: int = 1) -> bool:
    """Whether a version schedules asynchronously by default; an unknown one is taken for one of today.

    A pipeline turns it off.
    """
    found = version_in(version)
    return pp == 1 and (found is None or found >= ASYNC_SINCE)


def prefix_caching(version: str) -> bool:
    """Whether a version finds blocks again by their content by default; an unknown one is taken for one of today."""
    found = version_in(version)
    return found is None or found >= CACHING_SINCE
