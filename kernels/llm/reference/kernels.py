"""The set of kernels in plain torch, for any device and type. The CPU engine runs on it.

The keys and values of a layer lie in blocks, ``[blocks, block_size, kv_heads, head_dim]``, and the table of a sequence
names its blocks in order (PagedAttention, vLLM thesis §5.4.1). Groups of query heads share a KV head, in order. Sums
are in fp32 for 16-bit types, and otherwise in the type of the inputs: give fp64 tensors to get an fp64 reference.

On CPUs a decode step is bound by memory. So blocks are gathered for a few sequences of similar length at a time: then
what was gathered is still in the cache when it is read, and short sequences share one call.
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
