"""A scheduler's step laid out as a batch: which tokens of which sequences, at which positions, in which blocks.

Block tables are kept as arrays from step to step; a step writes what is new in them. Token ids are filled in last, so
that a step can be laid out while the one before still computes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from .batch import Layout, PackedBatch
from .sampling import Sampling

__all__ = ["HasNumber", "Live", "Piece", "StepPlan", "lay_out"]

IntArray = npt.NDArray[np.int64]


class HasNumber(Protocol):
    """A block."""

    number: int


@dataclass(slots=True, eq=False)
class Live:
    """One sequence under way.

    Parameters
    ----------
    request : str or int
        Whose.
    index : int
        Which of the request's sequences.
    tokens : list of int
        Prompt and output so far.
    prompt : int
        How many of them are the prompt.
    sampling : Sampling
        How its tokens are chosen.
    stream : Generator
        Its random numbers.
    table : ndarray of int64
        Its block table; longer than needed.
    blocks : int
        Blocks of `table` that are right; the last one may be copied on write, so it is always written anew.
    score : float
        Sum of its tokens' log-probabilities (beams).
    stopped : bool
        Whether it met a stop token.
    end : int
        Tokens up to and with the last one that counts: what comes after a stop token does not.
    """

    request: str | int
    index: int
    tokens: list[int]
    prompt: int
    sampling: Sampling
    stream: Any
    table: IntArray = field(default_factory=lambda: np.zeros(4, dtype=np.int64))
    blocks: int = 0
    score: float = 0.0
    stopped: bool = False
    end: int = 0

    def follow(self, blocks: Sequence[HasNumber]) -> IntArray:
        """The block table as it is now."""
        n = len(blocks)
        if n > len(self.table):
            self.table = np.concatenate((self.table, np.zeros(max(n, 2 * len(self.table)) - len(self.table), np.int64)))
        known = min(self.blocks, n) - 1
        if known < 0:
            self.table[:n] = [block.number for block in blocks]
        else:
            for k in range(known, n):
                self.table[k] = blocks[k].number
        self.blocks = n
        return self.table[:n]

    def forget(self) -> None:
        """Its blocks are others now."""
        self.blocks = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """A sequence's share of a step.

    Parameters
    ----------
    live : Live
        Whose.
    start, count : int
        First token to compute, and how many.
    blocks : sequence of blocks
        Its block table, with room for them.
    samples : int
        Tokens to choose after the last one: 0 in the middle of a prompt, several where a prompt is sampled often.
    """

    live: Live
    start: int
    count: int
    blocks: Sequence[HasNumber]
    samples: int


@dataclass(frozen=True, slots=True, eq=False)
class StepPlan:
    """A step that is laid out.

    Parameters
    ----------
    parts : list of Piece
        Decodes first, then chunks.
    packed : PackedBatch
        The batch; its token ids are not filled in yet.
    sampled : list of Piece
        Those whose logits are asked for, in order of the rows.
    """

    parts: list[Piece]
    packed: PackedBatch
    sampled: list[Piece]

    def fill(self) -> PackedBatch:
        """The batch with its token ids, which must be known now."""
        parts, decodes = self.parts, self.packed.layout.decodes
        tokens = [piece.live.tokens[piece.start] for piece in parts[:decodes]]
        for piece in parts[decodes:]:
            tokens += piece.live.tokens[piece.start : piece.start + piece.count]
        self.packed.numbers[: len(tokens)] = tokens
        return self.packed


def lay_out(
    parts: list[Piece],
    block_size: int,
    *,
    swap_out: Sequence[tuple[int, int]] = (),
    swap_in: Sequence[tuple[int, int]] = (),
    copies: Sequence[tuple[int, int]] = (),
) -> StepPlan:
    """Lay a step out.

    Parameters
    ----------
    parts : list of Piece
        What to compute, in any order.
    block_size : int
        Tokens in a block.
    swap_out, swap_in, copies : sequence of (int, int)
        Blocks to move and to copy first, from and to.
    """
    decodes = [piece for piece in parts if piece.count == 1]
    chunks = [piece for piece in parts if piece.count != 1] if len(decodes) < len(parts) else []
    ordered, n = decodes + chunks, len(decodes)
    tables = [piece.live.follow(piece.blocks) for piece in ordered]
    starts = [0]
    for piece in chunks:
        starts.append(starts[-1] + piece.count)
    sampled = [piece for piece in ordered if piece.samples]
    layout = Layout(
        n + starts[-1], n, len(chunks), max(map(len, tables), default=0), len(sampled), len(copies), len(swap_out),
        len(swap_in),
    )  # fmt: skip
    sizes = layout.sizes
    numbers = np.zeros(sum(sizes), dtype=np.int64)
    ends = np.cumsum(sizes)
    pieces = [numbers[end - size : end] for end, size in zip(ends.tolist(), sizes, strict=True)]
    _, positions, slots, contexts, first, rows, flat, out, into, copied = pieces
    contexts[:] = [piece.start + piece.count for piece in ordered]
    positions[:n] = contexts[:n] - 1
    first[:] = starts
    table = flat.reshape(layout.sequences, layout.width)
    for row, one in zip(table, tables, strict=True):
        row[: len(one)] = one
    place, offset = np.divmod(positions[:n], block_size)
    slots[:n] = table[np.arange(n), place] * block_size + offset
    for k, piece in enumerate(chunks):
        low, high = n + starts[k], n + starts[k + 1]
        where = np.arange(piece.start, piece.start + piece.count)
        positions[low:high] = where
        place, offset = np.divmod(where, block_size)
        slots[low:high] = table[n + k, place] * block_size + offset
    if sampled:
        last = np.concatenate((np.arange(n), n + np.array(starts[1:], dtype=np.int64) - 1))
        rows[:] = last[[bool(piece.samples) for piece in ordered]]
    for target, pairs in ((out, swap_out), (into, swap_in), (copied, copies)):
        if pairs:
            target[:] = np.array(pairs, dtype=np.int64).ravel()
    return StepPlan(ordered, PackedBatch(layout, numbers), sampled)
