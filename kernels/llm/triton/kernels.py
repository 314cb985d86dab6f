"""The Triton kernels as one set, with writes and copies of the cache. Imported only where they are asked for."""

# pyright: reportCallIssue=false
from __future__ import annotations

from torch import Tensor

from ..checks import check_copy, check_write
from ..choose import LLMKernels
from ..tiles import next_power_of_2
from .attention import merge_partials, paged_decode, paged_decode_partial, prefill_attention
from .cache import copy_kernel, write_kernel
from .launch import interpreted, launching_on

__all__ = ["copy_blocks", "reshape_and_cache", "triton_kernels"]

CHUNK_BYTES = 8192
"""Of a block that one program copies: 16 bytes four times for each of its 128 threads."""


def triton_kernels(kind: str) -> LLMKernels:
    """All Triton kernels.

    Parameters
    ----------
    kind : {"cuda", "cpu"}
        CPUs only under Triton's interpreter.

    Raises
    ------
    ValueError
        On ``cpu`` without the interpreter.
    """
    if kind != "cuda" and not interpreted():
        raise ValueError(
            "kernels_for: Triton's kernels run on cuda (got device cpu); "
            "take backend torch, or set TRITON_INTERPRET=1 before the start to check them slowly"
        )
    return LLMKernels(
        "triton", paged_decode, paged_decode_partial, merge_partials, prefill_attention, reshape_and_cache, copy_blocks
    )


def reshape_and_cache(k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, slots: Tensor) -> None:
    """As `reference.reshape_and_cache`; slots beyond the cache are not noticed."""
    check_write("reshape_and_cache", k, v, k_cache, v_cache, slots)
    tokens, heads, width = k.shape
    if not tokens:
        return
    k, v = _tokens(k), _tokens(v)
    block = next_power_of_2(heads * width)
    with launching_on(k_cache):
        write_kernel[(tokens,)](
            k, v, k_cache, v_cache, slots.contiguous(), k.stride(0), v.stride(0),
            ELEMENTS=heads * width, BLOCK=block, num_warps=min(8, max(1, block // 256)),
        )  # fmt: skip


def copy_blocks(k_cache: Tensor, v_cache: Tensor, pairs: Tensor) -> None:
    """As `reference.copy_blocks`; blocks beyond the cache are not noticed."""
    check_copy("copy_blocks", k_cache, v_cache, pairs)
    if not len(pairs):
        return
    elements = k_cache.stride(0)
    chunk = min(next_power_of_2(elements), CHUNK_BYTES // k_cache.element_size())
    with launching_on(k_cache):
        copy_kernel[-(-elements // chunk), len(pairs)](
            k_cache, v_cache, pairs.contiguous(), ELEMENTS=elements, CHUNK=chunk, num_warps=4
        )


def _tokens(x: Tensor) -> Tensor:
    """`x` if the heads of a token lie side by side, else a copy; tokens may lie apart, as in a fused projection."""
    return x if x.stride(2) == 1 and x.stride(1) == x.shape[2] else x.contiguous()
