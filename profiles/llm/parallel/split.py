"""Who holds which token when a sequence's keys and values are split over GPUs, and how long block tables are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ....errors import InputError

__all__ = ["Split", "owners", "table_entries", "tokens_per_shard"]

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Split:
    """How a sequence is cut over the shards of a group.

    Parameters
    ----------
    kind : str
        ``"interleaved"``: token i is on shard ``(i // interleave) mod N``, so that growth is balanced (vLLM's decode
        context parallelism). ``"contiguous"``: each shard holds one piece.
    interleave : int
        Tokens in a row on one shard, interleaved splits only; vLLM's ``--cp-kv-cache-interleave-size``, 1 by default.
    reserved : int, optional
        Contiguous splits only: the length that the pieces were cut for. Left out: the present length, balanced, though
        every new token would move others. The prompt's length: outputs pile up on the last shard. The longest possible
        length: early shards are full before late ones hold anything.

    Raises
    ------
    InputError
        On an unknown kind or a length below one.
    """

    kind: Literal["interleaved", "contiguous"] = "interleaved"
    interleave: int = 1
    reserved: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in ("interleaved", "contiguous"):
            raise InputError(f"split: kind: expected 'interleaved' or 'contiguous' (got {self.kind!r})")
        if self.interleave < 1 or (self.reserved is not None and self.reserved < 1):
            raise InputError(f"split: expected lengths >= 1 (got {self.interleave} and {self.reserved})")


def tokens_per_shard(lengths: Sequence[int] | IntArray, shards: int, split: Split | None = None) -> IntArray:
    """Tokens of each sequence on each shard.

    Parameters
    ----------
    lengths : sequence of int, shape (n,)
        Tokens of each sequence, >= 0.
    shards : int
        GPUs that share each sequence, >= 1.
    split : Split, optional
        How; interleaved token by token if left out.

    Returns
    -------
    ndarray of int, shape (shards, n)
        Columns sum to `lengths`.
    """
    split = split or Split()
    if shards < 1:
        raise InputError(f"shards: expected >= 1 (got {shards})")
    length = np.asarray(lengths, dtype=np.int64)
    if length.ndim != 1 or (length < 0).any():
        raise InputError("lengths: expected one row of token counts >= 0")
    rank = np.arange(shards, dtype=np.int64)[:, None]
    if split.kind == "interleaved":
        rounds, rest = np.divmod(length, split.interleave * shards)
        return rounds * split.interleave + np.clip(rest - rank * split.interleave, 0, split.interleave)
    piece = _piece(length, shards, split)
    found = np.clip(length - rank * piece, 0, piece)
    found[-1] = np.maximum(length - (shards - 1) * piece, 0)
    return found


def owners(length: int, shards: int, split: Split | None = None) -> IntArray:
    """Shard of every token of one sequence, shape ``(length,)``."""
    split = split or Split()
    token = np.arange(length, dtype=np.int64)
    if split.kind == "interleaved":
        return token // split.interleave % shards
    return np.minimum(token // _piece(np.asarray(length), shards, split), shards - 1)


def table_entries(lengths: Sequence[int] | IntArray, block_size: int, shards: int = 1) -> int:
    """Entries of the block tables that each GPU of a group is given: ``sum of ceil(L / (b x shards))``.

    A block covers ``b x shards`` tokens of a sequence, `b` on each shard (vLLM's decode context parallelism). Tensor
    parallelism splits heads and not tokens: every GPU has the whole table (thesis §4.3).
    """
    if block_size < 1 or shards < 1:
        raise InputError(f"table_entries: expected block_size and shards >= 1 (got {block_size}, {shards})")
    return int((-(-np.asarray(lengths, dtype=np.int64) // (block_size * shards))).sum())


def _piece(length: IntArray, shards: int, split: Split) -> IntArray:
    reserved = length if split.reserved is None else np.full_like(length, split.reserved)
    return np.maximum(-(-reserved // shards), 1)
