"""Tiles of the GEMM kernels in 8 bits: rows that a kernel pads to, where a coarse table does not show the steps.

vLLM's CUTLASS kernels for Hopper in fp8 choose by the rows of a batch: up to 16, to 64, to 128, and above that tiles of
128 rows on clusters of two; those of blocks of 128 have tiles of 128 (``scaled_mm_sm90_fp8_dispatch.cuh`` and
``scaled_mm_blockwise_sm90_fp8_dispatch.cuh``, vLLM 0.14). So 1,040 rows take as long as 1,280 in fp8. The public table
of H200s, which has a point right behind each step, bears it out: 1,025 rows take 27 % longer than the line from 1,024
to 2,048 says, 1,280 rows 3 %. Tables of bf16 go by cuBLAS, whose steps are small.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Tiles", "tiles_of"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Tiles:
    """Row counts at which a kernel's time steps up.

    Parameters
    ----------
    first : tuple of int
        Most rows of each small kernel, rising.
    rows : int
        Above them, rows go by multiples of this.
    """

    first: tuple[int, ...]
    rows: int

    def padded(self, rows: Floats, known: Floats) -> Floats:
        """Rows whose measured time stands for each of `rows`.

        Parameters
        ----------
        rows : array
            Rows of products.
        known : array
            Row counts that were measured, rising.

        Returns
        -------
        array
            The same rows where a point of the same tile is measured at or below them; else the first measured point of
            their tile above them, or the tile's end. As they are beyond the table.
        """
        edges = np.array([0, *self.first], dtype=float)
        small = np.clip(np.searchsorted(edges, rows, side="left"), 1, len(edges) - 1)
        full = np.ceil(rows / self.rows) * self.rows
        above = rows > edges[-1]
        end = np.where(above, full, edges[small])
        begin = np.where(above, np.maximum(full - self.rows, edges[-1]), edges[small - 1])
        at = np.minimum(np.searchsorted(known, begin, side="right"), len(known) - 1)  # the tile's first point, if any
        first = known[at]
        inside = (first > begin) & (first <= end)
        shown = inside & (first <= rows)
        return np.where(shown | (rows > known[-1]), rows, np.where(inside, first, end))


HOPPER = ("H100", "H200", "H800", "H20", "GH200")
CUTLASS = {"fp8": Tiles((16, 64, 128), 256), "fp8_block": Tiles((), 128)}


def tiles_of(device: str, framework: str, dtype: str) -> Tiles | None:
    """The steps of a table's kernels, where they are known: 8 bits by vLLM on Hopper.

    Parameters
    ----------
    device, framework, dtype : str
        As the table says them.
    """
    if "vllm" not in framework.lower() or not any(name in device for name in HOPPER):
        return None
    return CUTLASS.get(dtype)
