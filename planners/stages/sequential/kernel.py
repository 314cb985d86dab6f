"""Compiled loops of the dynamic programme over sequential pipelines.

A *state* is the set of units that the stages from some stage to the last one hold. State 0 is empty, the last state
holds everything, and a smaller set has a smaller number. A pair (low, high) of states is a stage: the units that are in
high and not in low. The programme builds pipelines from the last stage backwards, because under 1F1B a stage's memory
depends on how many stages come after it.
"""

from __future__ import annotations

import numpy as np

from ....jit import kernel

__all__ = ["fewest_devices", "fewest_stages", "shortest_sums"]

FAR = np.int64(1) << 40  # more devices than any cluster has; a sum of two still fits 64 bits


@kernel
def fewest_devices(threshold, low, start, seconds, held, degrees, n_devices, need):
    """The fewest devices of a pipeline of any number of stages, each of which can hold `need` microbatches.

    `FAR` means that there are not enough devices. `fewest_stages` describes the other parameters.
    """
    n_states = len(start) - 1
    fewest = np.full(n_states, FAR)
    fewest[0] = 0
    for high in range(1, n_states):
        best = np.int64(n_devices + 1)
        for p in range(start[high], start[high + 1]):
            rest = fewest[low[p]]
            if rest + degrees[0] >= best:
                continue
            for k in range(len(degrees)):
                if seconds[p, k] <= threshold and held[p, k] >= need:
                    best = min(best, rest + degrees[k])
                    break  # degrees ascend: the first that is fast enough needs the fewest devices
        if best <= n_devices:
            fewest[high] = best
    return fewest[n_states - 1]


@kernel
def fewest_stages(threshold, low, start, seconds, held, degrees, n_devices, most_stages, microbatches):
    """The fewest stages of a pipeline in which no stage exceeds the threshold; 0 if there is none.

    Parameters
    ----------
    threshold : float
        No stage takes longer per sample.
    low : ndarray of int64, shape (n_pairs,)
        Lower state of each pair; the pairs are sorted by their higher state.
    start : ndarray of int64, shape (n_states + 1,)
        Where the pairs of each higher state begin.
    seconds : ndarray of float64, shape (n_pairs, n_degrees)
        Per sample, for each data-parallel degree.
    held : ndarray of int64, shape (n_pairs, n_degrees)
        Microbatches that fit in memory; the s-th stage from the end holds min(s, microbatches).
    degrees : ndarray of int64
        Ascending.
    n_devices, most_stages, microbatches : int
        Number of devices, most stages of a pipeline, and microbatches of an iteration.
    """
    n_states = len(start) - 1
    before = np.full(n_states, FAR)
    before[0] = 0
    now = np.empty(n_states, np.int64)
    for s in range(1, most_stages + 1):
        need = min(s, microbatches)
        now[0] = FAR
        some = False
        for high in range(1, n_states):
            best = FAR
            for p in range(start[high], start[high + 1]):
                rest = before[low[p]]
                if rest + degrees[0] >= best or rest >= n_devices:
                    continue
                for k in range(len(degrees)):
                    if seconds[p, k] <= threshold and held[p, k] >= need:
                        best = min(best, rest + degrees[k])
                        break
            now[high] = best if best <= n_devices else FAR
            some = some or best <= n_devices
        if now[n_states - 1] <= n_devices:
            return s
        if not some:
            return 0
        before, now = now, before
    return 0


@kernel
def shortest_sums(threshold, low, start, seconds, held, degrees, n_devices, most_stages, microbatches):
    """For each number of stages up to `most_stages`, the pipeline that keeps the threshold with the least sum of times.

    Returns
    -------
    pairs, chosen : ndarray of int64, shape (most_stages + 1, most_stages)
        [s]: pair and index of the degree of each of s stages, first stage first; −1 behind them, and where there is no
        such pipeline.
    """
    n_states, n_degrees = len(start) - 1, len(degrees)
    before = np.full((n_states, n_devices + 1), np.inf)
    before[0] = 0.0
    pair = np.full((most_stages + 1, n_states, n_devices + 1), -1, np.int32)
    degree = np.zeros((most_stages + 1, n_states, n_devices + 1), np.int8)
    pairs = np.full((most_stages + 1, most_stages), np.int64(-1))
    chosen = np.full((most_stages + 1, most_stages), np.int64(-1))
    for s in range(1, most_stages + 1):
        need = min(s, microbatches)
        now = np.full((n_states, n_devices + 1), np.inf)
        for high in range(1, n_states):
            row = now[high]
            for p in range(start[high], start[high + 1]):
                rest = before[low[p]]
                if rest[n_devices] == np.inf:
                    continue
                for k in range(n_degrees):
                    t = seconds[p, k]
                    if not t <= threshold or held[p, k] < need:
                        continue
                    d = degrees[k]
                    for m in range(d, n_devices + 1):
                        value = rest[m - d] + t
                        if value < row[m]:
                            row[m] = value
                            pair[s, high, m] = p
                            degree[s, high, m] = k
        before = now
        if before[n_states - 1, n_devices] == np.inf:
            continue
        state, m = n_states - 1, n_devices
        for at in range(s):
            pairs[s, at], chosen[s, at] = pair[s - at, state, m], degree[s - at, state, m]
            m -= degrees[chosen[s, at]]
            state = low[pairs[s, at]]
    return pairs, chosen
