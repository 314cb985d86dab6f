"""Compiled loops of TeraPipe's dynamic programme over tokens (Algorithm 1), for one threshold."""

from __future__ import annotations

import numpy as np

from ...jit import kernel

__all__ = ["token_totals", "token_slices"]


@kernel
def token_totals(times, threshold):
    """S*(i; t_max) of Eq. 2.8 for i = 0 … n units and every batch size, shape (B, n + 1); inf if there is no slicing.

    Parameters
    ----------
    times : ndarray of float64, shape (B, n, n)
        Seconds of a slice: [batch size − 1, context, length − 1]. Entries with context + length > n are not read.
    threshold : float
        No slice takes longer.
    """
    n_batch, n, _ = times.shape
    totals = np.full((n_batch, n + 1), np.inf)
    for b in range(n_batch):
        best = totals[b]
        best[0] = 0.0
        for context in range(n):
            base = best[context]
            if base == np.inf:
                continue
            row = times[b, context]
            for length in range(n - context):  # forward relaxation: both rows are read in order, so it is vectorised
                t = row[length]
                value = base + t if t <= threshold else np.inf
                best[context + length + 1] = min(best[context + length + 1], value)
    return totals


@kernel
def token_slices(times, totals, threshold):
    """Lengths of the slices behind ``totals[n]``, the last one first, and their number.

    It finds the same sums again, bit by bit, so no table of choices has to be kept.

    Parameters
    ----------
    times : ndarray of float64, shape (n, n)
        Seconds for one batch size, as [context, length − 1].
    totals : ndarray of float64, shape (n + 1,)
        The row of `token_totals` for this batch size.
    """
    n = len(totals) - 1
    lengths = np.empty(n, np.int64)
    count, end = 0, n
    while end > 0:
        for context in range(end):
            t = times[context, end - context - 1]
            if t <= threshold and totals[context] + t == totals[end]:
                lengths[count] = end - context
                count += 1
                end = context
                break
    return lengths, count
