"""Decode attention over block tables in Triton: one program per sequence, group of query heads and piece of context.

All query heads that share a KV head are one program's rows, so that keys and values are read once for the group; rows
are padded to 16, the least that matrix units take. The contiguous cache is the same kernel without the table, which is
what paging costs.
"""

# pyright: reportOperatorIssue=false, reportPossiblyUnboundVariable=false
from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["decode_kernel", "merge_kernel"]


# numbers that change from step to step must not make a kernel of their own where they happen to be 1 or even
@triton.jit(do_not_specialize=["splits", "least_blocks", "table_row"])
def decode_kernel(
    q, k, v, tables, lens, out, out_m, out_s,
    scale_log2, q_row, q_head, kv_block, kv_token, kv_head, table_row, splits, least_blocks,
    GROUP: tl.constexpr, GROUP_PAD: tl.constexpr, HEAD_BLOCKS: tl.constexpr,
    D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_SIZE: tl.constexpr, BLOCK_N: tl.constexpr,
    PAGED: tl.constexpr, PARTIAL: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Rows are the query heads of one KV head, columns `BLOCK_N` cached tokens at a time.

    Grid: (KV heads x HEAD_BLOCKS, splits, sequences). KV heads come first: they lie side by side in memory, and
    programs that run at the same time then read neighbouring bytes.
    """
    shared_head = tl.program_id(0) // HEAD_BLOCKS
    split = tl.program_id(1)
    row = tl.program_id(2)
    member = (tl.program_id(0) % HEAD_BLOCKS) * GROUP_PAD + tl.arange(0, GROUP_PAD)
    head = shared_head * GROUP + member
    dim = tl.arange(0, BLOCK_D)
    real = member < GROUP
    used = real[:, None] & (dim < D)[None, :]
    query = tl.load(q + row.to(tl.int64) * q_row + head[:, None] * q_head + dim[None, :], mask=used, other=0.0)

    length = tl.load(lens + row)
    blocks = tl.cdiv(length, BLOCK_SIZE)
    piece = tl.maximum(tl.cdiv(blocks, splits), least_blocks) * BLOCK_SIZE
    first = split * piece
    past = tl.minimum(first + piece, length)

    top = tl.full([GROUP_PAD], float("-inf"), tl.float32)
    total = tl.zeros([GROUP_PAD], tl.float32)
    acc = tl.zeros([GROUP_PAD, BLOCK_D], tl.float32)
    k += shared_head * kv_head
    v += shared_head * kv_head
    token = first + tl.arange(0, BLOCK_N)
    if PAGED:
        table = tables + row.to(tl.int64) * table_row
        block = tl.load(table + token // BLOCK_SIZE, mask=token < past, other=0)
    for start in range(first, past, BLOCK_N):
        token = start + tl.arange(0, BLOCK_N)
        inside = token < past
        if PAGED:
            at = block.to(tl.int64) * kv_block + (token % BLOCK_SIZE) * kv_token
            # the next tile's blocks: were they looked up where they are needed, every tile would wait for its table
            block = tl.load(table + (token + BLOCK_N) // BLOCK_SIZE, mask=token + BLOCK_N < past, other=0)
        else:
            at = row.to(tl.int64) * kv_block + token.to(tl.int64) * kv_token
        read = inside[:, None] if D == BLOCK_D else inside[:, None] & (dim < D)[None, :]
        keys = tl.load(k + at[:, None] + dim[None, :], mask=read, other=0.0)
        score = tl.dot(query, tl.trans(keys), input_precision=PRECISION) * scale_log2
        score = tl.where(inside[None, :], score, float("-inf"))
        higher = tl.maximum(top, tl.max(score, 1))
        weight = tl.exp2(score - higher[:, None])
        decay = tl.exp2(top - higher)
        total = total * decay + tl.sum(weight, 1)
        values = tl.load(v + at[:, None] + dim[None, :], mask=read, other=0.0)
        acc = tl.dot(weight.to(values.dtype), values, acc * decay[:, None], input_precision=PRECISION)
        top = higher

    # an empty piece has no key: total 0, top -inf, output 0
    found = acc / tl.where(total > 0.0, total, 1.0)[:, None]
    result = (row.to(tl.int64) * (tl.num_programs(0) // HEAD_BLOCKS * GROUP) + head) * splits + split
    tl.store(out + result[:, None] * D + dim[None, :], found.to(out.dtype.element_ty), mask=used)
    if PARTIAL:
        # ln 2: scores are in units of log 2 here, since exp2 is the GPU's own instruction; outside they are natural.
        tl.store(out_m + result, top * 0.6931471805599453, mask=real)
        tl.store(out_s + result, total, mask=real)


@triton.jit(do_not_specialize=["splits"])
def merge_kernel(
    o, m, s, out, splits,
    SPLITS_PAD: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """One program per sequence and query head: outputs of all pieces, each by its weight ``s exp(m - max m)``."""
    row = tl.program_id(0).to(tl.int64)
    split = tl.arange(0, SPLITS_PAD)
    dim = tl.arange(0, BLOCK_D)
    given = split < splits
    total = tl.load(s + row * splits + split, mask=given, other=0.0)
    held = total > 0.0
    top = tl.load(m + row * splits + split, mask=given & held, other=float("-inf"))
    highest = tl.max(top, 0)
    # where nothing is held the difference would be -inf - -inf; what it gives is masked, but must not be NaN
    weight = tl.where(held, total * tl.exp(top - tl.where(highest == float("-inf"), 0.0, highest)), 0.0)
    whole = tl.sum(weight, 0)
    weight = weight / tl.where(whole > 0.0, whole, 1.0)
    read = held[:, None] & (dim < D)[None, :]
    each = tl.load(o + (row * splits + split)[:, None] * D + dim[None, :], mask=read, other=0.0)
    merged = tl.sum(weight[:, None] * each.to(tl.float32), 0)
    tl.store(out + row * D + dim, merged.to(out.dtype.element_ty), mask=dim < D)
