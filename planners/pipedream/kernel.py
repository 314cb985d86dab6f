"""Compiled loops of PipeDream's programme A[i][j][m] for one level of the hierarchy."""

from __future__ import annotations

import numpy as np

from ...jit import kernel

__all__ = ["level_table"]


@kernel
def level_table(
    n_rows, stage_s, act, param, out, before, follows, machines, bandwidth, within, memory, compression,
    straight, fewer, compat,
):  # fmt: skip
    """Least bottleneck of states i … j on m machines, for the first `n_rows` values of i.

    Parameters
    ----------
    n_rows : int
        1 for the outermost level.
    stage_s : ndarray, shape (n, n)
        [i, j]: seconds of what is after state i − 1 up to state j, on one machine of this level; inf: no such stage.
    act, param, out : ndarray, shape (n,)
        Bytes of activations and parameters up to a state, and of results that cross it.
    before : ndarray of bool, shape (n, n)
        Which state comes before which.
    follows : ndarray of bool, shape (n, n)
        [i, j]: whether states up to j may begin at i; all, or those whose state i − 1 comes before j.
    machines : int
        Of this level.
    bandwidth, within : float
        Bytes per second between them; machines inside each.
    memory, compression : float
        Bytes of a machine, inf: unlimited; ratio that transfers are divided by, 0: transfers do not count.
    straight, fewer, compat : bool
        No replication; machines may stay idle; the authors' formulae, see `pipedream_partition`.

    Returns
    -------
    best : ndarray, shape (n_rows, n, machines)
        Seconds; inf: none.
    split, left, used : ndarray of int32
        Last state before the last stage (−1: one stage), machines for what comes before it, and of the last stage.
    """
    n = len(out)
    best = np.full((n_rows, n, machines), np.inf)
    split = np.full((n_rows, n, machines), -1, np.int32)
    left = np.zeros((n_rows, n, machines), np.int32)
    used = np.zeros((n_rows, n, machines), np.int32)
    most = 1 if straight else machines
    last = np.empty(machines + 1)
    extra = 0 if compat else 1  # the machine that computes keeps a copy of its own
    for i in range(n_rows):
        base_act, base_param = (act[i - 1], param[i - 1]) if i > 0 else (0.0, 0.0)
        for j in range(i, n):
            row = best[i, j]
            if not follows[i, j]:
                continue
            size = param[j] - base_param
            for m in range(1, most + 1):
                stashes = np.ceil((machines - m) / m) + extra
                if stashes * (act[j] - base_act + size) > memory:
                    continue
                reduce = 4 * (m - 1) * size / (bandwidth * m) / within
                row[m - 1] = (stage_s[i, j] + reduce) / m if compat else stage_s[i, j] / m + reduce
                used[i, j, m - 1] = m
            if j == i:
                continue
            for k in range(i, j):
                if not before[k, j] or not follows[i, k] or (i > 0 and before[k, i - 1]):
                    continue
                size = param[j] - param[k]
                stash = act[j] - act[k] + size
                for m in range(1, most + 1):
                    reduce = 4 * (m - 1) * size / (bandwidth * m)
                    t = (stage_s[k + 1, j] + reduce) / m if compat else stage_s[k + 1, j] / m + reduce / within
                    if compression > 0:
                        t = max(t, 2 * out[k] / (bandwidth * m) / compression)
                        if j < n - 1:
                            t = max(t, 2 * out[j] / (bandwidth * m) / compression)
                    last[m] = t
                prefix = best[i, k]
                for total in range(2, machines + 1):
                    value, at = row[total - 1], 0
                    for m in range(1, min(most, total - 1) + 1):
                        if np.ceil((machines - total) / m) * stash + extra * stash > memory:
                            continue
                        t = max(prefix[total - m - 1], last[m])
                        if t < value:
                            value, at = t, m
                    if at > 0:
                        row[total - 1] = value
                        split[i, j, total - 1], left[i, j, total - 1], used[i, j, total - 1] = k, total - at, at
            if fewer:
                for m in range(1, machines):
                    if row[m - 1] < row[m]:
                        row[m] = row[m - 1]
                        split[i, j, m], left[i, j, m] = split[i, j, m - 1], left[i, j, m - 1]
                        used[i, j, m] = used[i, j, m - 1]
    return best, split, left, used
