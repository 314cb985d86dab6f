"""`level_table`, compiled: PipeDream's dynamic programme A[i][j][m] for one level of the machine hierarchy."""

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
        [i, j]: seconds of the layers after state i − 1 up to state j, on one machine of this level; inf: no such stage.
    act, param, out : ndarray, shape (n,)
        Bytes of activations and of parameters up to a state, and bytes of the results that cross it.
    before : ndarray of bool, shape (n, n)
        [i, j]: whether state i comes before state j.
    follows : ndarray of bool, shape (n, n)
        [i, j]: whether a stage that ends with state j may begin at i: always, or only if state i − 1 comes before j.
    machines : int
        Machines of this level.
    bandwidth, within : float
        Bytes per second between these machines; number of machines of the level below inside each.
    memory, compression : float
        Bytes of a machine (inf: unlimited); ratio by which transfers are divided (0: transfers do not count).
    straight, fewer, compat : bool
        Whether stages are never replicated; whether machines may stay idle; whether to use the authors' formulae (see
        `pipedream_partition`).

    Returns
    -------
    best : ndarray, shape (n_rows, n, machines)
        Seconds of the slowest stage; inf: no pipeline.
    split, left, used : ndarray of int32
        Last state before the last stage (−1: there is only one stage), machines of the stages before it, and machines
        of the last stage.
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
                # A stage on m of the machines keeps one version for each minibatch that the other machines' stages,
                # taken to have as many replicas, have in flight: the authors' ⌈(M − m)/m⌉ (SOSP '19, §3.3: NOAM).
                stashes = np.ceil((machines - m) / m) + extra
                if stashes * (act[j] - base_act + size) > memory:
                    continue
                # 4 (m − 1)/m, as the authors' program has it: with sharded parameter servers a worker sends and
                # receives (m − 1)/m of the gradients and of the weights. The devices inside a machine share the
                # traffic.
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
                    if compression > 0:  # transfers overlap with computation; twice: activations there, gradients back
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
                        if t < value:  # ties keep the earlier split and fewer replicas, as the authors' program does
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
