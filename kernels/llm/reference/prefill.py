"""Prefill attention over the paged cache in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from ..checks import check_prefill
from .decode import paged_decode
from .gathered import gather, lengths

__all__ = ["prefill_attention"]


def prefill_attention(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    block_tables: Tensor,
    query_starts: Tensor,
    context_lens: Tensor,
    scale: float,
) -> Tensor:
    """Causal attention of runs of queries over the paged cache: whole prompts, chunks, and tails of cached prefixes.

    Query i of request b, of ``n = query_starts[b + 1] - query_starts[b]``, sits at position
    ``context_lens[b] - n + i`` and sees all tokens up to its own.

    Parameters
    ----------
    q : Tensor, shape (tokens, heads, width)
        Queries of all requests, one request after another.
    k_cache, v_cache, block_tables, scale
        As in `paged_decode`; the queries' own keys and values are already written.
    query_starts : Tensor of int32, shape (batch + 1,)
        First query of each request, and the number of queries.
    context_lens : Tensor of int32, shape (batch,)
        Tokens of each request, its queries included.

    Returns
    -------
    Tensor, shape (tokens, heads, width), of q's type

    Raises
    ------
    ValueError
        If shapes or types do not fit, or a request has more queries than tokens.
    """
    where = "prefill_attention"
    check_prefill(where, q, k_cache, v_cache, block_tables, query_starts, context_lens)
    lens, starts = lengths(where, context_lens, block_tables, k_cache.shape[1]), query_starts.tolist()
    if starts[0] or starts[-1] != len(q):
        raise ValueError(f"{where}: query_starts must run from 0 to the {len(q)} queries (got {starts})")
    out = torch.empty_like(q)
    single = [b for b, length in enumerate(lens) if length and starts[b + 1] - starts[b] == 1]
    if single:  # decodes among prefills: a run of one query is one
        rows = torch.tensor(single, device=q.device)
        at = query_starts.index_select(0, rows).long()
        found = paged_decode(q[at], k_cache, v_cache, block_tables[rows], context_lens[rows], scale)
        out.index_copy_(0, at, found)
    for b, length in enumerate(lens):
        first, past = starts[b], starts[b + 1]
        n = past - first
        if not 0 <= n <= length:
            raise ValueError(f"{where}: request {b} must have 0 to {length} queries, its context (got {n})")
        if n < 2:
            continue
        keys, values = gather(k_cache, v_cache, block_tables[b : b + 1], [length])
        mask = None
        if n < length:
            mask = torch.ones(n, length, dtype=torch.bool, device=q.device).tril(length - n)
        out[first:past] = scaled_dot_product_attention(
            q[None, first:past].transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2),
            attn_mask=mask, is_causal=mask is None, scale=scale, enable_gqa=q.shape[1] != k_cache.shape[2],
        )[0].transpose(0, 1)  # fmt: skip
    return out
