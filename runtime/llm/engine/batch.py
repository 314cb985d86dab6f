"""`Batch`: one forward pass as the model sees it, and its form on the wire: one flat array of integers."""

from __future__ import annotations

# torch is typed in part.
# pyright: standard
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

__all__ = ["Batch", "HEADER", "Layout", "PackedBatch"]

HEADER = 8
"""Numbers of a packed batch's header: the eight fields of `Layout`."""

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes of a batch.

    Parameters
    ----------
    tokens : int
        Tokens to compute, those of the decodes first.
    decodes, chunks : int
        Sequences that compute one token, and pieces of prompts; in this order everywhere.
    width : int
        Blocks of the longest block table.
    samples : int
        Rows whose logits are asked for.
    copies, swap_out, swap_in : int
        Pairs of blocks to copy and to move before the model runs.
    """

    tokens: int = 0
    decodes: int = 0
    chunks: int = 0
    width: int = 0
    samples: int = 0
    copies: int = 0
    swap_out: int = 0
    swap_in: int = 0

    @property
    def sequences(self) -> int:
        """Sequences that take part."""
        return self.decodes + self.chunks

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers in each part of the packed form."""
        n, pairs = self.sequences, (2 * self.swap_out, 2 * self.swap_in, 2 * self.copies)
        return (self.tokens, self.tokens, self.tokens, n, self.chunks + 1, self.samples, n * self.width, *pairs)

    def header(self) -> IntArray:
        """The sizes as numbers."""
        return np.array(
            (
                self.tokens, self.decodes, self.chunks, self.width, self.samples, self.copies, self.swap_out,
                self.swap_in,
            ),
            dtype=np.int64,
        )  # fmt: skip

    @classmethod
    def of_header(cls, header: IntArray) -> Layout:
        """The sizes back from numbers."""
        return cls(*(int(n) for n in header))


@dataclass(frozen=True, slots=True, eq=False)
class PackedBatch:
    """A batch as it is built and sent.

    Parameters
    ----------
    layout : Layout
        Sizes.
    numbers : ndarray of int64
        tokens, positions, slots, contexts, starts of the chunks, rows to sample, block tables, pairs of blocks
        (out, in, copies), one after the other.
    """

    layout: Layout
    numbers: IntArray

    def on(self, device: torch.device) -> Batch:
        """The batch as tensors on a device: one copy, then views."""
        flat = torch.from_numpy(self.numbers)
        if device.type == "cuda":
            flat = flat.pin_memory().to(device, non_blocking=True)
        return Batch.of(self.layout, flat)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """A batch on a device.

    Parameters
    ----------
    layout : Layout
        Sizes.
    tokens, positions, slots : Tensor of int64, shape (tokens,)
        What to compute, where it stands in its sequence, and where its keys and values go.
    contexts : Tensor of int32, shape (sequences,)
        Tokens of each sequence up to and with its last one here.
    starts : Tensor of int32, shape (chunks + 1,)
        First token of each chunk, counted from the first of all chunks.
    rows : Tensor of int64, shape (samples,)
        Tokens whose logits are asked for.
    tables : Tensor of int32, shape (sequences, width)
        Block tables.
    swap_out, swap_in, copies : Tensor of int64, shape (n, 2)
        Pairs of blocks, from and to.
    """

    layout: Layout
    tokens: Tensor
    positions: Tensor
    slots: Tensor
    contexts: Tensor
    starts: Tensor
    rows: Tensor
    tables: Tensor
    swap_out: Tensor
    swap_in: Tensor
    copies: Tensor

    @classmethod
    def of(cls, layout: Layout, flat: Tensor) -> Batch:
        """Views of a flat tensor of int64."""
        tokens, positions, slots, contexts, starts, rows, tables, out, into, copies = flat.split(layout.sizes)
        return cls(
            layout, tokens, positions, slots, contexts.int(), starts.int(), rows,
            tables.view(layout.sequences, layout.width).int(), out.view(-1, 2), into.view(-1, 2), copies.view(-1, 2),
        )  # fmt: skip
