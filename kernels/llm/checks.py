"""Shapes and types that every kernel here expects: checked at the door, before anything is launched."""

from __future__ import annotations

from torch import Tensor

__all__ = ["check_cache", "check_copy", "check_decode", "check_merge", "check_prefill", "check_splits", "check_write"]


def check_cache(where: str, k_cache: Tensor, v_cache: Tensor) -> None:
    """Keys and values lie alike, ``[blocks, block_size, kv_heads, head_dim]``, tokens of a block without gaps.

    Raises
    ------
    ValueError
        Naming what does not fit.
    """
    if k_cache.ndim != 4 or k_cache.shape != v_cache.shape or 0 in k_cache.shape[1:]:
        raise ValueError(
            f"{where}: expected k_cache and v_cache of one shape [blocks, block_size, kv_heads, head_dim] "
            f"(got {list(k_cache.shape)} and {list(v_cache.shape)})"
        )
    if k_cache.stride() != v_cache.stride() or not k_cache.is_contiguous():
        raise ValueError(
            f"{where}: k_cache and v_cache must be contiguous "
            f"(got strides {k_cache.stride()} and {v_cache.stride()}); allocate each as one tensor"
        )
    if k_cache.dtype != v_cache.dtype or k_cache.device != v_cache.device:
        raise ValueError(
            f"{where}: k_cache and v_cache must share type and device "
            f"(got {k_cache.dtype} on {k_cache.device} and {v_cache.dtype} on {v_cache.device})"
        )


def check_decode(
    where: str, q: Tensor, k_cache: Tensor, v_cache: Tensor, block_tables: Tensor, context_lens: Tensor
) -> None:
    """One query per sequence, ``[B, H, D]``, over tables ``[B, W]`` and contexts ``[B]``.

    Raises
    ------
    ValueError
        Naming what does not fit.
    """
    check_cache(where, k_cache, v_cache)
    _check_queries(where, q, k_cache)
    _check_tables(where, block_tables, context_lens, q.shape[0])


def check_prefill(
    where: str,
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    block_tables: Tensor,
    query_starts: Tensor,
    context_lens: Tensor,
) -> None:
    """Queries of all requests in a row, ``[T, H, D]``, cut by ``query_starts [B + 1]``.

    Raises
    ------
    ValueError
        Naming what does not fit.
    """
    check_cache(where, k_cache, v_cache)
    _check_queries(where, q, k_cache)
    if query_starts.ndim != 1 or not len(query_starts):
        raise ValueError(f"{where}: query_starts must be [requests + 1] (got {list(query_starts.shape)})")
    _check_tables(where, block_tables, context_lens, len(query_starts) - 1)


def check_write(where: str, k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, slots: Tensor) -> None:
    """New keys and values ``[T, kv_heads, head_dim]`` and one slot for each token.

    Raises
    ------
    ValueError
        Naming what does not fit.
    """
    check_cache(where, k_cache, v_cache)
    if k.shape != v.shape or k.ndim != 3 or k.shape[1:] != k_cache.shape[2:]:
        raise ValueError(
            f"{where}: expected k and v of shape [tokens, {k_cache.shape[2]}, {k_cache.shape[3]}] "
            f"(got {list(k.shape)} and {list(v.shape)})"
        )
    if slots.shape != k.shape[:1]:
        raise ValueError(f"{where}: expected one slot per token, [{k.shape[0]}] (got {list(slots.shape)})")


def check_copy(where: str, k_cache: Tensor, v_cache: Tensor, pairs: Tensor) -> None:
    """Pairs of (source, destination) block, ``[n, 2]``.

    Raises
    ------
    ValueError
        Naming what does not fit.
    """
    check_cache(where, k_cache, v_cache)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(f"{where}: expected pairs of blocks, [n, 2] (got {list(pairs.shape)})")


def check_splits(where: str, splits: int) -> None:
    """At least one split.

    Raises
    ------
    ValueError
        If there is none.
    """
    if splits < 1:
        raise ValueError(f"{where}: splits must be at least 1 (got {splits})")


def check_merge(where: str, o: Tensor, m: Tensor, s: Tensor) -> None:
    """Outputs ``[B, H, S, D]`` with ``m`` and ``s [B, H, S]``.

    Raises
    ------
    ValueError
        Naming what does not fit.
    """
    if o.ndim != 4 or m.shape != o.shape[:3] or s.shape != o.shape[:3] or not o.shape[2]:
        raise ValueError(
            f"{where}: expected o [batch, heads, splits, width] with m and s [batch, heads, splits] "
            f"(got {list(o.shape)}, {list(m.shape)} and {list(s.shape)})"
        )


def _check_queries(where: str, q: Tensor, k_cache: Tensor) -> None:
    kv_heads, width = k_cache.shape[2:]
    if q.ndim != 3 or q.shape[2] != width or q.shape[1] < 1 or q.shape[1] % kv_heads:
        raise ValueError(
            f"{where}: expected q [tokens, heads, {width}] with heads a multiple of the {kv_heads} KV heads "
            f"(got {list(q.shape)})"
        )
    if q.dtype != k_cache.dtype or q.device != k_cache.device:
        raise ValueError(
            f"{where}: q must have the cache's type and device "
            f"(got {q.dtype} on {q.device} and {k_cache.dtype} on {k_cache.device})"
        )


def _check_tables(where: str, block_tables: Tensor, context_lens: Tensor, batch: int) -> None:
    if block_tables.ndim != 2 or block_tables.shape[0] != batch or context_lens.shape != (batch,):
        raise ValueError(
            f"{where}: expected block_tables [{batch}, width] and context_lens [{batch}] "
            f"(got {list(block_tables.shape)} and {list(context_lens.shape)})"
        )
