"""The kernels in plain torch, on any device and in any type: what Triton's are held to, and the CPU engine's own.

Keys and values of a layer lie in blocks, ``[blocks, block_size, kv_heads, head_dim]``; the table of a sequence names
its blocks in order (PagedAttention, vLLM thesis §5.4.1). Query heads share KV heads in groups, in order. Sums are in
fp32 for 16-bit types, else in the type that comes in: give fp64 tensors to get an fp64 reference.

On CPUs a decode step is bound by memory: blocks are gathered for a few sequences of similar length at a time, so that
what is gathered is still in the cache when it is read, and short sequences share one call.
"""

from __future__ import annotations

from .cache import copy_blocks, reshape_and_cache
from .decode import merge_partials, paged_decode, paged_decode_partial
from .prefill import prefill_attention

__all__ = [
    "copy_blocks",
    "merge_partials",
    "paged_decode",
    "paged_decode_partial",
    "prefill_attention",
    "reshape_and_cache",
]
