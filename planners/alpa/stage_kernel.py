"""Compiled loops of the stage programme: Eq. 3 of the Alpa paper for one threshold, and its min-max twin for inference.

The state `f[s, l, d]` is the best value of the layers l… cut into s stages on exactly d devices. The index d varies
fastest, so that one (stage, submesh) pair updates a whole row of device counts in a vectorised loop.

Each stage (first, last, submesh) has a *front*: its configurations in ascending order of cost, without those that allow
no more later stages than a cheaper one. The best configuration with s − 1 later stages is the first of the front that
allows them, whatever the threshold. So the configuration need not be a dimension of the programme.
"""

from __future__ import annotations

import numpy as np

from ...jit import inner, kernel

__all__ = ["fronts", "least_largest", "least_total"]


@kernel(plain=20_000)
def fronts(cost, later):
    """Front of every stage: (cost, later stages allowed, configuration), each [L, L, K, C], unused entries inf, −1, −1.

    Parameters
    ----------
    cost : ndarray of float64, shape (L, L, K, C)
        Seconds of layers i…j inclusive.
    later : ndarray of int64, shape (L, L, K, C)
        Most stages that may follow; < 0: none fits.
    """
    n_layers, _, n_meshes, n_configs = cost.shape
    front_cost = np.full(cost.shape, np.inf)
    front_later = np.full(cost.shape, -1, np.int64)
    front_config = np.full(cost.shape, -1, np.int64)
    for i in range(n_layers):
        for j in range(i, n_layers):
            for k in range(n_meshes):
                most = np.int64(-1)
                size = 0
                while True:
                    best = -1
                    for c in range(n_configs):
                        t = cost[i, j, k, c]
                        if later[i, j, k, c] <= most or t == np.inf:
                            continue
                        tied = best >= 0 and t == cost[i, j, k, best] and later[i, j, k, c] > later[i, j, k, best]
                        if best < 0 or t < cost[i, j, k, best] or tied:
                            best = c
                    if best < 0:
                        break
                    most = later[i, j, k, best]
                    front_cost[i, j, k, size] = cost[i, j, k, best]
                    front_later[i, j, k, size] = most
                    front_config[i, j, k, size] = best
                    size += 1
    return front_cost, front_later, front_config


@inner
def _pick(front_later, i, j, k, s):
    """Place on the front of the cheapest configuration with s − 1 later stages; −1 if there is none."""
    for c in range(front_later.shape[3]):
        if front_later[i, j, k, c] < 0:
            return -1
        if front_later[i, j, k, c] >= s - 1:
            return c
    return -1


@inner
def _put(stages, at, first, last, k, c):
    """One row. ``stages[at] = (…)`` would have numba compile its rules of broadcasting, a second of it."""
    stages[at, 0], stages[at, 1], stages[at, 2], stages[at, 3] = first, last, k, c


@kernel
def least_total(front_cost, front_later, sizes, n_devices, most_stages, threshold):
    """Least Σ t with every t ≤ threshold: (Σ t, stages as rows [first, last, submesh, front place]); inf if none.

    Parameters
    ----------
    front_cost, front_later : ndarray, shape (L, L, K, C)
        From `fronts`.
    sizes : ndarray of int64, shape (K,)
        Devices of each submesh.
    n_devices, most_stages : int
        Devices, all of which are used; stages at most.
    threshold : float
        Most seconds that a stage may take.
    """
    n_layers, _, n_meshes, _ = front_cost.shape
    f = np.full((most_stages + 1, n_layers + 1, n_devices + 1), np.inf)
    f[0, n_layers, 0] = 0.0
    for s in range(1, most_stages + 1):
        for first in range(n_layers - s, -1, -1):
            row = f[s, first]
            for last in range(first, n_layers - s + 1):
                rest = f[s - 1, last + 1]
                for k in range(n_meshes):
                    size = sizes[k]
                    if size > n_devices:
                        continue
                    c = _pick(front_later, first, last, k, s)
                    if c < 0:
                        continue
                    t = front_cost[first, last, k, c]
                    if t > threshold:
                        continue
                    for d in range(n_devices - size + 1):
                        row[d + size] = min(row[d + size], rest[d] + t)
    best = 0
    for s in range(1, most_stages + 1):
        if f[s, 0, n_devices] < f[best, 0, n_devices]:
            best = s
    stages = np.empty((best, 4), np.int64)
    total = f[best, 0, n_devices]
    first, left = 0, n_devices
    for s in range(best, 0, -1):
        found = False
        for last in range(first, n_layers - s + 1):
            for k in range(n_meshes):
                if found or sizes[k] > left:
                    continue
                c = _pick(front_later, first, last, k, s)
                if c < 0 or front_cost[first, last, k, c] > threshold:
                    continue
                if f[s - 1, last + 1, left - sizes[k]] + front_cost[first, last, k, c] == f[s, first, left]:
                    _put(stages, best - s, first, last, k, c)
                    found = True
        first, left = stages[best - s, 1] + 1, left - sizes[stages[best - s, 2]]
    return total, stages


@kernel
def least_largest(front_cost, front_later, sizes, n_devices, most_stages):
    """Least number of stages · max t: (that, stages as `least_total` gives them); inf if there is none."""
    n_layers, _, n_meshes, _ = front_cost.shape
    f = np.full((most_stages + 1, n_layers + 1, n_devices + 1), np.inf)
    f[0, n_layers, 0] = 0.0
    for s in range(1, most_stages + 1):
        for first in range(n_layers - s, -1, -1):
            row = f[s, first]
            for last in range(first, n_layers - s + 1):
                rest = f[s - 1, last + 1]
                for k in range(n_meshes):
                    size = sizes[k]
                    if size > n_devices:
                        continue
                    c = _pick(front_later, first, last, k, s)
                    if c < 0:
                        continue
                    t = front_cost[first, last, k, c]
                    for d in range(n_devices - size + 1):
                        row[d + size] = min(row[d + size], max(rest[d], t))
    best, value = 0, np.inf
    for s in range(1, most_stages + 1):
        if s * f[s, 0, n_devices] < value:
            best, value = s, s * f[s, 0, n_devices]
    stages = np.empty((best, 4), np.int64)
    first, left = 0, n_devices
    for s in range(best, 0, -1):
        found = False
        for last in range(first, n_layers - s + 1):
            for k in range(n_meshes):
                if found or sizes[k] > left:
                    continue
                c = _pick(front_later, first, last, k, s)
                if c < 0:
                    continue
                if max(f[s - 1, last + 1, left - sizes[k]], front_cost[first, last, k, c]) <= f[s, first, left]:
                    _put(stages, best - s, first, last, k, c)
                    found = True
        first, left = stages[best - s, 1] + 1, left - sizes[stages[best - s, 2]]
    return value, stages
