"""Writes and copies of the paged cache in Triton: keys and values together, all heads of a token at once."""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["copy_kernel", "write_kernel"]


@triton.jit
def write_kernel(
    k, v, k_cache, v_cache, slots, k_token, v_token,
    ELEMENTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One program per token: its keys and values of all heads lie side by side, in the cache too."""
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + token)
    if slot >= 0:
        element = tl.arange(0, BLOCK)
        inside = element < ELEMENTS
        keys = tl.load(k + token * k_token + element, mask=inside)
        values = tl.load(v + token * v_token + element, mask=inside)
        to = slot.to(tl.int64) * ELEMENTS + element
        tl.store(k_cache + to, keys.to(k_cache.dtype.element_ty), mask=inside)
        tl.store(v_cache + to, values.to(v_cache.dtype.element_ty), mask=inside)


@triton.jit
def copy_kernel(
    k_cache, v_cache, pairs,
    ELEMENTS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Grid: (chunks of a block, pairs): all pairs in one launch."""
    pair = tl.program_id(1)
    source = tl.load(pairs + 2 * pair).to(tl.int64) * ELEMENTS
    destination = tl.load(pairs + 2 * pair + 1).to(tl.int64) * ELEMENTS
    element = tl.program_id(0) * CHUNK + tl.arange(0, CHUNK)
    inside = element < ELEMENTS
    keys = tl.load(k_cache + source + element, mask=inside)
    values = tl.load(v_cache + source + element, mask=inside)
    tl.store(k_cache + destination + element, keys, mask=inside)
    tl.store(v_cache + destination + element, values, mask=inside)
