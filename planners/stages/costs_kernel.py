"""`set_bytes`, compiled: bytes of sets of units, where what several units of a set share counts once."""

from __future__ import annotations

import numpy as np

from ...jit import kernel

__all__ = ["set_bytes"]


@kernel
def set_bytes(masks, parameters, parameter_sizes, kept, kept_sizes, makers, readers, result_sizes, work):
    """Bytes of each set, one row of eight: state, gradient, update, kept, work, received, sent, returned.

    Parameters
    ----------
    masks : ndarray of bool, shape (m, n_units)
        The sets: which units each contains.
    parameters, kept, makers, readers : tuple of ndarray of int64
        For each table (start, units): units of row r are ``units[start[r]:start[r + 1]]``.
    parameter_sizes, kept_sizes, result_sizes : ndarray, shape (3, …), (…,), (2, …)
        Bytes of the rows.
    work : ndarray, shape (n_units,)
        Largest temporary of each unit.
    """
    found = np.zeros((len(masks), 8))
    for s in range(len(masks)):
        inside, row = masks[s], found[s]
        start, units = parameters
        for r in range(len(start) - 1):
            for at in range(start[r], start[r + 1]):
                if inside[units[at]]:
                    for k in range(3):
                        row[k] += parameter_sizes[k, r]
                    break
        start, units = kept
        for r in range(len(start) - 1):
            for at in range(start[r], start[r + 1]):
                if inside[units[at]]:
                    row[3] += kept_sizes[r]
                    break
        for u in range(len(work)):
            if inside[u] and work[u] > row[4]:
                row[4] = work[u]
        start, units = readers
        for r in range(len(start) - 1):
            made = False
            for at in range(makers[0][r], makers[0][r + 1]):
                made = made or inside[makers[1][at]]
            for at in range(start[r], start[r + 1]):
                # One reader on the other side of the boundary is enough: a result crosses it once, whoever reads it.
                if inside[units[at]] != made:
                    if made:
                        row[6] += result_sizes[0, r]
                    else:
                        row[5] += result_sizes[0, r]
                        row[7] += result_sizes[1, r]
                    break
    return found
