"""The Triton attention kernels behind the signatures of `reference`. Imported only where they are launched."""

# pyright: reportCallIssue=false
from __future__ import annotations

import math

import torch
from torch import Tensor

from ..checks import check_decode, check_merge, check_prefill, check_splits
from ..tiles import LEAST_PIECE, Tiles, decode_tiles, next_power_of_2, prefill_tiles, splits_for
from .decode import decode_kernel, merge_kernel
from .launch import capability, check_type, launching_on, precision, processors, rows
from .prefill import prefill_kernel

__all__ = ["contiguous_decode", "merge_partials", "paged_decode", "paged_decode_partial", "prefill_attention"]


def paged_decode(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    block_tables: Tensor,
    context_lens: Tensor,
    scale: float,
    tiles: Tiles | None = None,
    splits: int | None = None,
) -> Tensor:
    """As `reference.paged_decode`, in fp16, bf16 or fp32. Contexts beyond their tables are not noticed.

    `tiles` and `splits` are those of `decode_tiles` and `splits_for` if left out.
    """
    check_decode("paged_decode", q, k_cache, v_cache, block_tables, context_lens)
    check_splits("paged_decode", 1 if splits is None else splits)
    return _whole("paged_decode", q, k_cache, v_cache, block_tables, context_lens, scale, tiles, splits)


def contiguous_decode(
    q: Tensor, k: Tensor, v: Tensor, context_lens: Tensor, scale: float, tiles: Tiles | None = None
) -> Tensor:
    """Decode attention where the keys and values of a sequence lie in one piece: what paging is compared with.

    Parameters
    ----------
    q : Tensor, shape (batch, heads, width)
        Queries.
    k, v : Tensor, shape (batch, room, kv_heads, width)
        Keys and values; what lies past a context is not read.
    context_lens, scale
        As in `reference.paged_decode`.
    tiles : Tiles, optional
        Tile sizes; by default those of `decode_tiles`.

    Raises
    ------
    ValueError
        If shapes or types do not fit.
    """
    # lengths stand for tables: nothing may be launched here that the paged kernel does without
    check_decode("contiguous_decode", q, k, v, context_lens.reshape(-1, 1), context_lens)
    if len(k) != len(q):
        raise ValueError(f"contiguous_decode: expected keys of {len(q)} sequences (got {len(k)})")
    return _whole("contiguous_decode", q, k, v, None, context_lens, scale, tiles)


def paged_decode_partial(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    block_tables: Tensor,
    context_lens: Tensor,
    scale: float,
    splits: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """As `reference.paged_decode_partial`; all three in fp32."""
    check_decode("paged_decode_partial", q, k_cache, v_cache, block_tables, context_lens)
    check_splits("paged_decode_partial", splits)
    return _pieces("paged_decode_partial", q, k_cache, v_cache, block_tables, context_lens, scale, splits, 1, None)


def merge_partials(o: Tensor, m: Tensor, s: Tensor) -> Tensor:
    """As `reference.merge_partials`."""
    return _merged(o, m, s, o.dtype)


def prefill_attention(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    block_tables: Tensor,
    query_starts: Tensor,
    context_lens: Tensor,
    scale: float,
    tiles: Tiles | None = None,
) -> Tensor:
    """As `reference.prefill_attention`, in fp16, bf16 or fp32, with a positive scale.

    What lies on the device is not checked: `query_starts` that do not rise, or a request with more queries than
    tokens, give wrong results.
    """
    where = "prefill_attention"
    check_prefill(where, q, k_cache, v_cache, block_tables, query_starts, context_lens)
    check_type(where, q)
    if not scale > 0:
        raise ValueError(f"{where}: scale must be positive (got {scale})")
    q, block_tables, query_starts, context_lens = rows(q), rows(block_tables), rows(query_starts), rows(context_lens)
    tokens, heads, width = q.shape
    block_size, kv_heads = k_cache.shape[1:3]
    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    requests = len(context_lens)
    if not tokens or not requests:
        return out
    chosen = tiles or prefill_tiles(width, q.element_size(), capability(q))
    with launching_on(q):
        prefill_kernel[heads, tokens // chosen.m + requests](
            q, k_cache, v_cache, block_tables, query_starts, context_lens, out,
            scale * math.log2(math.e), q.stride(0), q.stride(1), *k_cache.stride()[:3], block_tables.stride(0),
            out.stride(0), out.stride(1), requests,
            GROUP=heads // kv_heads, D=width, BLOCK_D=next_power_of_2(max(16, width)), BLOCK_SIZE=block_size,
            BLOCK_M=chosen.m, BLOCK_N=chosen.n, REQUESTS_PAD=next_power_of_2(requests), PRECISION=precision(q),
            num_warps=chosen.warps, num_stages=chosen.stages, enable_fp_fusion=True,
        )  # fmt: skip
    return out


def _whole(
    where: str,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    tables: Tensor | None,
    lens: Tensor,
    scale: float,
    tiles: Tiles | None,
    splits: int | None = None,
) -> Tensor:
    """Decode in as many pieces as the device wants, merged."""
    block_size, kv_heads = (16 if tables is None else k.shape[1]), k.shape[2]
    room = k.shape[1] if tables is None else tables.shape[1] * block_size
    if splits is None:
        splits = splits_for(len(q) * kv_heads, room, processors(q))
    if splits == 1:
        out = torch.empty_like(q, memory_format=torch.contiguous_format)
        _launch(where, q, k, v, tables, lens, scale, 1, 1, tiles, out, None, None)
        return out
    o, m, s = _pieces(where, q, k, v, tables, lens, scale, splits, -(-LEAST_PIECE // block_size), tiles)
    return _merged(o, m, s, q.dtype)


def _pieces(
    where: str,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    tables: Tensor | None,
    lens: Tensor,
    scale: float,
    splits: int,
    least_blocks: int,
    tiles: Tiles | None,
) -> tuple[Tensor, Tensor, Tensor]:
    batch, heads, width = q.shape
    o = torch.empty((batch, heads, splits, width), dtype=torch.float32, device=q.device)
    m = torch.empty((batch, heads, splits), dtype=torch.float32, device=q.device)
    s = torch.empty_like(m)
    _launch(where, q, k, v, tables, lens, scale, splits, least_blocks, tiles, o, m, s)
    return o, m, s


def _launch(
    where: str,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    tables: Tensor | None,
    lens: Tensor,
    scale: float,
    splits: int,
    least_blocks: int,
    tiles: Tiles | None,
    out: Tensor,
    m: Tensor | None,
    s: Tensor | None,
) -> None:
    check_type(where, q)
    q, lens = rows(q), rows(lens)
    given = lens if tables is None else rows(tables)  # without tables any pointer will do: it is not read
    batch, heads, width = q.shape
    if not batch:
        return
    kv_heads = k.shape[2]
    group = heads // kv_heads
    chosen = tiles or decode_tiles(group, width, q.element_size())
    blocks = -(-group // chosen.m)
    with launching_on(q):
        decode_kernel[kv_heads * blocks, splits, batch](
            q, k, v, given, lens, out, out if m is None else m, out if s is None else s,
            scale * math.log2(math.e), q.stride(0), q.stride(1), *k.stride()[:3], given.stride(0),
            splits, least_blocks,
            GROUP=group, GROUP_PAD=chosen.m, HEAD_BLOCKS=blocks, D=width, BLOCK_D=next_power_of_2(max(16, width)),
            BLOCK_SIZE=16 if tables is None else k.shape[1], BLOCK_N=chosen.n, PAGED=tables is not None,
            PARTIAL=m is not None, PRECISION=precision(q), num_warps=chosen.warps, num_stages=chosen.stages,
            enable_fp_fusion=True,
        )  # fmt: skip


def _merged(o: Tensor, m: Tensor, s: Tensor, kind: torch.dtype) -> Tensor:
    check_merge("merge_partials", o, m, s)
    check_type("merge_partials", o)
    o, m, s = o.contiguous(), m.contiguous(), s.contiguous()
    batch, heads, splits, width = o.shape
    out = torch.empty((batch, heads, width), dtype=kind, device=o.device)
    if batch:
        with launching_on(o):
            merge_kernel[(batch * heads,)](
                o, m, s, out, splits, SPLITS_PAD=next_power_of_2(splits), D=width,
                BLOCK_D=next_power_of_2(max(16, width)), num_warps=4 if splits > 8 else 2, enable_fp_fusion=True,
            )  # fmt: skip
    return out
