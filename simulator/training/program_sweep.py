"""Whether a program ends: its actions without their times, as far as they go."""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from .program_messages import RECEIVE, SEND

__all__ = ["sweep"]


@numba.njit(cache=True, nogil=True)
def sweep(
    kind: npt.NDArray[np.int8], message: npt.NDArray[np.int32], offsets: npt.NDArray[np.int64], n_messages: int
) -> npt.NDArray[np.int64]:
    """Where each mesh stands when nothing can go on any more."""
    n = len(offsets) - 1
    at = offsets[:-1].copy()
    sent = np.zeros(n_messages, dtype=np.bool_)
    waiting = np.full(n_messages, -1, dtype=np.int32)
    stack = np.empty(n, dtype=np.int32)  # a mesh stands in it once: it waits for one message at a time
    top = n
    for mesh in range(n):
        stack[mesh] = n - 1 - mesh
    while top > 0:
        top -= 1
        mesh = stack[top]
        while at[mesh] < offsets[mesh + 1]:
            row = at[mesh]
            what = message[row]
            if kind[row] == RECEIVE and not sent[what]:
                waiting[what] = mesh
                break
            if kind[row] == SEND:
                sent[what] = True
                if waiting[what] >= 0:
                    stack[top] = waiting[what]
                    top += 1
            at[mesh] = row + 1
    return at
