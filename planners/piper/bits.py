"""Sets as rows of 64-bit words, and the words of a row as one key that can be sorted and compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Bits", "bits", "keys"]

Bits = npt.NDArray[np.uint64]


def bits(members: npt.NDArray[np.bool_]) -> Bits:
    """Rows of members as rows of 64-bit words."""
    packed = np.packbits(members, axis=1, bitorder="little")
    room = np.zeros((len(packed), -(-packed.shape[1] // 8) * 8), np.uint8)
    room[:, : packed.shape[1]] = packed
    return room.view(np.uint64)


def keys(sets: Bits) -> npt.NDArray[Any]:
    """Sets in bits, each as one thing that can be sorted and compared."""
    whole = np.ascontiguousarray(sets)
    return whole[:, 0] if whole.shape[1] == 1 else whole.view(f"V{8 * whole.shape[1]}")[:, 0]
