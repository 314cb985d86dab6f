"""Writes and copies of the paged cache in plain torch."""

from __future__ import annotations

from torch import Tensor

from ..checks import check_copy, check_write

__all__ = ["copy_blocks", "reshape_and_cache"]


def reshape_and_cache(k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, slots: Tensor) -> None:
    """Write the keys and values of new tokens into their slots, in place.

    Parameters
    ----------
    k, v : Tensor, shape (tokens, kv_heads, width)
        New keys and values.
    k_cache, v_cache : Tensor, shape (blocks, block_size, kv_heads, width)
        The layer's cache.
    slots : Tensor of int64, shape (tokens,)
        ``block * block_size + offset``, each at most once; negative: the token is not written.

    Raises
    ------
    ValueError
        If shapes do not fit.
    """
    check_write("reshape_and_cache", k, v, k_cache, v_cache, slots)
    kept = slots >= 0
    if not bool(kept.all()):
        k, v, slots = k[kept], v[kept], slots[kept]
    k_cache.flatten(0, 1).index_copy_(0, slots.long(), k.to(k_cache.dtype))
    v_cache.flatten(0, 1).index_copy_(0, slots.long(), v.to(v_cache.dtype))


def copy_blocks(k_cache: Tensor, v_cache: Tensor, pairs: Tensor) -> None:
    """Copy blocks of the cache, in place: what copy on write asks for, all pairs in one go (thesis §5.5.1).

    Parameters
    ----------
    k_cache, v_cache : Tensor, shape (blocks, block_size, kv_heads, width)
        The layer's cache.
    pairs : Tensor of int64, shape (n, 2)
        Source and destination. A block is a destination once at most, and no destination is a source: pairs are
        copied at the same time.

    Raises
    ------
    ValueError
        If shapes do not fit.
    """
    check_copy("copy_blocks", k_cache, v_cache, pairs)
    source, destination = pairs[:, 0], pairs[:, 1]
    k_cache.index_copy_(0, destination, k_cache.index_select(0, source))
    v_cache.index_copy_(0, destination, v_cache.index_select(0, source))
