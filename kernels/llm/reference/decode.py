"""Decode attention over block tables in plain torch, whole and in pieces, and the merge of pieces."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from ..checks import check_decode, check_merge, check_splits
from .gathered import GATHER_BYTES, gather, lengths, similar

__all__ = ["merge_partials", "paged_decode", "paged_decode_partial"]


def paged_decode(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, block_tables: Tensor, context_lens: Tensor, scale: float
) -> Tensor:
    """Attention of one query per sequence over its cached tokens, its own included.

    Parameters
    ----------
    q : Tensor, shape (batch, heads, width)
        Queries.
    k_cache, v_cache : Tensor, shape (blocks, block_size, kv_heads, width)
        The layer's cache, the new tokens already written.
    block_tables : Tensor of int32, shape (batch, table width)
        Blocks of each sequence; entries past its context are not read.
    context_lens : Tensor of int32, shape (batch,)
        Tokens of each sequence; 0 gives zeros.
    scale : float
        Factor on the scores.

    Returns
    -------
    Tensor, shape (batch, heads, width), of q's type

    Raises
    ------
    ValueError
        If shapes or types do not fit, or a context is longer than its table.
    """
    check_decode("paged_decode", q, k_cache, v_cache, block_tables, context_lens)
    batch, heads, width = q.shape
    block_size, kv_heads = k_cache.shape[1:3]
    lens = lengths("paged_decode", context_lens, block_tables, block_size)
    grouped = q.view(batch, kv_heads, heads // kv_heads, width) if q.is_contiguous() else q.unflatten(1, (kv_heads, -1))
    out = torch.zeros_like(grouped)
    limit = GATHER_BYTES if q.device.type == "cpu" else 2**62
    token_bytes = 2 * kv_heads * width * q.element_size()
    for rows, longest, ragged in similar(lens, block_size, limit // token_bytes):
        at = torch.tensor(rows, device=q.device)
        keys, values = gather(k_cache, v_cache, block_tables.index_select(0, at), [lens[row] for row in rows])
        mask = None
        if ragged:
            mask = torch.arange(longest, device=q.device) < context_lens.index_select(0, at)[:, None]
            mask = mask[:, None, None]
        found = scaled_dot_product_attention(
            grouped.index_select(0, at), keys.transpose(1, 2), values.transpose(1, 2), attn_mask=mask, scale=scale
        )
        out.index_copy_(0, at, found)
    return out.view(batch, heads, width)


def paged_decode_partial(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    block_tables: Tensor,
    context_lens: Tensor,
    scale: float,
    splits: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Attention of one query per sequence over each of `splits` pieces of its cached tokens.

    A sequence of n blocks is cut into pieces of ``ceil(n / splits)`` blocks; the last ones may be empty.

    Parameters
    ----------
    q, k_cache, v_cache, block_tables, context_lens, scale
        As in `paged_decode`.
    splits : int
        Pieces of each sequence.

    Returns
    -------
    o : Tensor, shape (batch, heads, splits, width)
        Normalised output of each piece, zeros where it is empty; fp32 for 16-bit types, else of q's type.
    m : Tensor, shape (batch, heads, splits), of o's type
        Largest scaled score; −inf where the piece is empty.
    s : Tensor, shape (batch, heads, splits), of o's type
        Sum of ``exp(score - m)``; 0 where the piece is empty.

    Raises
    ------
    ValueError
        As in `paged_decode`, or on no split.
    """
    check_decode("paged_decode_partial", q, k_cache, v_cache, block_tables, context_lens)
    check_splits("paged_decode_partial", splits)
    batch, heads, width = q.shape
    block_size, kv_heads = k_cache.shape[1:3]
    lens = lengths("paged_decode_partial", context_lens, block_tables, block_size)
    kind = torch.promote_types(q.dtype, torch.float32)
    o = torch.zeros(batch, splits, heads, width, dtype=kind, device=q.device)
    m = torch.full((batch, splits, heads), float("-inf"), dtype=kind, device=q.device)
    s = torch.zeros(batch, splits, heads, dtype=kind, device=q.device)
    grouped = q.unflatten(1, (kv_heads, -1)).to(kind)
    # in one piece sequences of similar length share a call; pieces of several depend on the length, and go one by one
    room = GATHER_BYTES // (2 * kv_heads * width * kind.itemsize) if splits == 1 else 0
    for rows, longest, ragged in similar(lens, block_size, room):
        at = torch.tensor(rows, device=q.device)
        keys, values = gather(k_cache, v_cache, block_tables.index_select(0, at), [lens[row] for row in rows])
        keys, values = keys.transpose(1, 2).to(kind), values.transpose(1, 2).to(kind)
        scores = torch.matmul(grouped.index_select(0, at), keys.transpose(2, 3)).mul_(scale)
        if ragged:
            past = torch.arange(longest, device=q.device) >= context_lens.index_select(0, at)[:, None]
            scores.masked_fill_(past[:, None, None], float("-inf"))
        blocks = -(-longest // block_size)
        piece = -(-blocks // splits) * block_size
        for split, start in enumerate(range(0, longest, piece)):
            part = scores[..., start : start + piece]
            top = part.amax(dim=-1, keepdim=True)
            weight = torch.exp(part - top)
            total = weight.sum(dim=-1, keepdim=True)
            found = torch.matmul(weight, values[:, :, start : start + piece]) / total
            o[at, split] = found.flatten(1, 2)
            m[at, split], s[at, split] = top.flatten(1), total.flatten(1)
    return o.transpose(1, 2), m.transpose(1, 2), s.transpose(1, 2)


def merge_partials(o: Tensor, m: Tensor, s: Tensor) -> Tensor:
    """Attention over all pieces from that over each: ``sum o_j s_j e^(m_j - M) / sum s_j e^(m_j - M)``, M = max m_j.

    The thesis on cache parallelism (§4.4) keeps outputs normalised; a normalised output weighs ``s e^(m - M)``.

    Parameters
    ----------
    o : Tensor, shape (batch, heads, splits, width)
        Normalised outputs; not read where `s` is 0.
    m, s : Tensor, shape (batch, heads, splits)
        Largest score and sum of exponentials of each piece.

    Returns
    -------
    Tensor, shape (batch, heads, width), of o's type
        Zeros where every piece is empty.

    Raises
    ------
    ValueError
        If shapes do not fit.
    """
    check_merge("merge_partials", o, m, s)
    held = s > 0
    top = m.masked_fill(~held, float("-inf")).amax(dim=-1, keepdim=True)
    weight = torch.where(held, s * torch.exp(m - top.masked_fill(top.isneginf(), 0.0)), 0.0)
    total = weight.sum(dim=-1, keepdim=True)
    weight = weight / total.masked_fill(total == 0, 1.0)
    kept = o.to(weight.dtype).masked_fill(~held[..., None], 0.0)
    return torch.matmul(weight[:, :, None], kept).squeeze(2).to(o.dtype)
