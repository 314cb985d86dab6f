"""Prefill attention over the paged cache in Triton: causal, requests of any lengths in one launch.

Tiles of queries of one head walk over tiles of keys with a running maximum and sum (FlashAttention). Tiles of keys
that every query of the tile sees need no mask and come first; only those on the diagonal are masked.
"""

# pyright: reportOperatorIssue=false, reportArgumentType=false, reportPossiblyUnboundVariable=false
from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["prefill_kernel"]


@triton.jit
def _attend(
    acc, total, top, query, k, v, table, position, first, past, scale_log2, kv_block, kv_token,
    D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_SIZE: tl.constexpr, BLOCK_N: tl.constexpr,
    MASKED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Take the keys from `first` to `past` (not included)."""
    dim = tl.arange(0, BLOCK_D)
    token = first + tl.arange(0, BLOCK_N)
    block = tl.load(table + token // BLOCK_SIZE, mask=token < past, other=0)
    for start in range(first, past, BLOCK_N):
        token = start + tl.arange(0, BLOCK_N)
        at = block.to(tl.int64) * kv_block + (token % BLOCK_SIZE) * kv_token
        # the next tile's blocks: were they looked up where they are needed, every tile would wait for its table
        block = tl.load(table + (token + BLOCK_N) // BLOCK_SIZE, mask=token + BLOCK_N < past, other=0)
        if MASKED or D != BLOCK_D:
            read = (token < past)[:, None] & (dim < D)[None, :]
            keys = tl.load(k + at[:, None] + dim[None, :], mask=read, other=0.0)
        else:
            keys = tl.load(k + at[:, None] + dim[None, :])
        score = tl.dot(query, tl.trans(keys), input_precision=PRECISION)
        if MASKED:
            score = tl.where(token[None, :] <= position[:, None], score, float("-inf"))
        higher = tl.maximum(top, tl.max(score, 1) * scale_log2)
        weight = tl.exp2(score * scale_log2 - higher[:, None])
        decay = tl.exp2(top - higher)
        total = total * decay + tl.sum(weight, 1)
        if MASKED or D != BLOCK_D:
            values = tl.load(v + at[:, None] + dim[None, :], mask=read, other=0.0)
        else:
            values = tl.load(v + at[:, None] + dim[None, :])
        acc = tl.dot(weight.to(values.dtype), values, acc * decay[:, None], input_precision=PRECISION)
        top = higher
    return acc, total, top


# numbers that change from step to step must not make a kernel of their own where they happen to be 1 or even
@triton.jit(do_not_specialize=["requests", "table_row"])
def prefill_kernel(
    q, k, v, tables, starts, lens, out,
    scale_log2, q_token, q_head, kv_block, kv_token, kv_head, table_row, out_token, out_head, requests,
    GROUP: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_SIZE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, REQUESTS_PAD: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Grid: (heads, queries // BLOCK_M + requests), which is at least as many tiles as there are.

    The last tiles of a request see most keys and are started first, so that short ones fill the end. `scale_log2` must
    be positive: the largest score is scaled after the maximum is taken.
    """
    head = tl.program_id(0)
    slot = tl.num_programs(1) - 1 - tl.program_id(1)
    # request b may use tiles from starts[b] // BLOCK_M + b on: enough for it, whatever its length
    each = tl.arange(0, REQUESTS_PAD)
    from_tile = tl.load(starts + each, mask=each < requests, other=2147483647 // 2) // BLOCK_M + each
    request = tl.sum(tl.where((from_tile <= slot) & (each < requests), 1, 0), 0) - 1
    start = tl.load(starts + request)
    count = tl.load(starts + request + 1) - start
    tile = slot - (start // BLOCK_M + request)
    if tile * BLOCK_M >= count:
        return
    length = tl.load(lens + request)
    index = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    dim = tl.arange(0, BLOCK_D)
    used = (index < count)[:, None] & (dim < D)[None, :]
    from_query = (start + index).to(tl.int64)
    query = tl.load(q + from_query[:, None] * q_token + head * q_head + dim[None, :], mask=used, other=0.0)

    lowest = length - count + tile * BLOCK_M
    position = length - count + index
    last = tl.minimum(lowest + BLOCK_M, length)
    unmasked = (lowest + 1) // BLOCK_N * BLOCK_N
    table = tables + request.to(tl.int64) * table_row
    k += (head // GROUP) * kv_head
    v += (head // GROUP) * kv_head
    top = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    acc, total, top = _attend(
        acc, total, top, query, k, v, table, position, 0, unmasked, scale_log2, kv_block, kv_token,
        D, BLOCK_D, BLOCK_SIZE, BLOCK_N, False, PRECISION,
    )  # fmt: skip
    acc, total, top = _attend(
        acc, total, top, query, k, v, table, position, unmasked, last, scale_log2, kv_block, kv_token,
        D, BLOCK_D, BLOCK_SIZE, BLOCK_N, True, PRECISION,
    )  # fmt: skip
    found = acc / total[:, None]
    to = from_query[:, None] * out_token + head * out_head + dim[None, :]
    tl.store(out + to, found.to(out.dtype.element_ty), mask=used)
