"""Blocks of the cache gathered into plain tensors: what the torch reference reads, a few sequences at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

__all__ = ["GATHER_BYTES", "gather", "lengths", "similar"]

GATHER_BYTES = 2**20
"""Keys and values gathered at a time on CPUs: about a core's L2. Measured: 2 to 4 times faster than all at once."""

SIMILAR = 0.5
"""Sequences that are gathered together differ by at most this factor, so that at most half is padding."""


def lengths(where: str, context_lens: Tensor, block_tables: Tensor, block_size: int) -> list[int]:
    """Contexts as numbers, each at most what its table holds."""
    lens: list[int] = context_lens.tolist()
    room = block_tables.shape[1] * block_size
    if lens and not 0 <= min(lens) <= max(lens) <= room:
        raise ValueError(
            f"{where}: context_lens must be 0 to {room} (tables of {block_tables.shape[1]} blocks of {block_size}) "
            f"(got {min(lens)} to {max(lens)})"
        )
    return lens


def similar(lens: Sequence[int], block_size: int, tokens: int) -> Iterator[tuple[list[int], int, bool]]:
    """Groups of sequences to gather together: their rows, the longest length, and whether lengths differ.

    Empty sequences are left out.
    """
    # Longest first: neighbours in this order are similar, and the first of a group decides how much is gathered.
    order = sorted((row for row, length in enumerate(lens) if length), key=lambda row: -lens[row])
    first = 0
    while first < len(order):
        longest = lens[order[first]]
        most = max(1, tokens // (-(-longest // block_size) * block_size))
        past = first + 1
        while past < len(order) and past - first < most and lens[order[past]] >= SIMILAR * longest:
            past += 1
        rows = order[first:past]
        yield rows, longest, lens[rows[-1]] < longest
        first = past


def gather(k_cache: Tensor, v_cache: Tensor, tables: Tensor, lens: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Keys and values of some sequences, ``[batch, longest, kv_heads, width]``; zeros past the end of each.

    Nothing past a context may be used as it is: entries of tables there mean nothing, and blocks may hold what an
    earlier owner left, NaN included, which no mask takes out of a sum.
    """
    block_size, longest = k_cache.shape[1], max(lens)
    blocks = tables[:, : -(-longest // block_size)]
    ragged = min(lens) < longest
    at = (blocks.clamp(0, len(k_cache) - 1) if ragged else blocks).reshape(-1)
    both = k_cache.new_empty((2, len(at), *k_cache.shape[1:]))
    torch.index_select(k_cache, 0, at, out=both[0])
    torch.index_select(v_cache, 0, at, out=both[1])
    both = both.view(2, len(tables), -1, *k_cache.shape[2:])[:, :, :longest]
    if ragged:
        for row, length in enumerate(lens):
            if length < longest:
                both[:, row, length:].zero_()
    return both[0], both[1]
