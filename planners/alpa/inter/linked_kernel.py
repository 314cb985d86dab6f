"""Compiled loop of the stage programme that knows the submesh before a stage and several kinds of devices.

State: `f[s, i, r, p]`, the least Σ t of layers i… cut into s stages on exactly the devices r (a number for a count of
every kind), when the stage before layer i is on submesh p. A stage's time has the transfer from p in it.
"""

from __future__ import annotations

import numpy as np

from ....jit import inner, kernel

__all__ = ["least_linked"]


@inner
def _pick(front_later, i, j, m, s):
    for c in range(front_later.shape[3]):
        if front_later[i, j, m, c] < 0:
            return -1
        if front_later[i, j, m, c] >= s - 1:
            return c
    return -1


@inner
def _time(base, i, j, p, m, n_bytes, per_byte, latency, overlap):
    """Seconds of a stage with what it receives."""
    if i == 0 or n_bytes[i, j] == 0.0:
        return base
    moved = latency[p, m] + n_bytes[i, j] * per_byte[p, m]
    return max(base, moved) if overlap else base + moved


@kernel
def least_linked(
    front_cost, front_later, n_bytes, per_byte, latency, overlap, left_after, all_devices, most_stages, threshold
):
    """Least Σ t with every t ≤ threshold: (Σ t, max t, stages as rows [first, last, submesh, front place]).

    Parameters
    ----------
    front_cost, front_later : ndarray, shape (L, L, K, C)
        From `stage_kernel.fronts`.
    n_bytes : ndarray of float64, shape (L, L)
        Bytes that layers i…j receive from earlier ones, with the gradients that go back.
    per_byte, latency : ndarray of float64, shape (K, K)
        Seconds per byte and latency of a transfer from one submesh to another.
    overlap : bool
        Whether a stage takes the longer of computing and receiving, or both.
    left_after : ndarray of int64, shape (K, R)
        Devices that are left of r when a submesh is taken; −1 where they do not suffice.
    all_devices, most_stages : int
        The r that must be used up; stages at most.
    threshold : float
        Most seconds that a stage may take.
    """
    n_layers, _, n_meshes, _ = front_cost.shape
    n_left = left_after.shape[1]
    f = np.full((most_stages + 1, n_layers + 1, n_left, n_meshes), np.inf)
    f[0, n_layers, 0, :] = 0.0
    for s in range(1, most_stages + 1):
        for i in range(n_layers - s, -1, -1):
            for j in range(i, n_layers - s + 1):
                for m in range(n_meshes):
                    c = _pick(front_later, i, j, m, s)
                    if c < 0 or front_cost[i, j, m, c] > threshold:
                        continue
                    for p in range(n_meshes if i > 0 else 1):
                        t = _time(front_cost[i, j, m, c], i, j, p, m, n_bytes, per_byte, latency, overlap)
                        if t > threshold:
                            continue
                        for r in range(n_left):
                            rest = left_after[m, r]
                            if rest >= 0:
                                f[s, i, r, p] = min(f[s, i, r, p], t + f[s - 1, j + 1, rest, m])
    best = 0
    for s in range(1, most_stages + 1):
        if f[s, 0, all_devices, 0] < f[best, 0, all_devices, 0]:
            best = s
    stages = np.empty((best, 4), np.int64)
    i, r, p, longest = 0, all_devices, 0, 0.0
    for s in range(best, 0, -1):
        found = False
        for j in range(i, n_layers - s + 1):
            for m in range(n_meshes):
                if found or left_after[m, r] < 0:
                    continue
                c = _pick(front_later, i, j, m, s)
                if c < 0:
                    continue
                t = _time(front_cost[i, j, m, c], i, j, p, m, n_bytes, per_byte, latency, overlap)
                if t <= threshold and t + f[s - 1, j + 1, left_after[m, r], m] == f[s, i, r, p]:
                    row = stages[best - s]  # by itself: a tuple would have numba compile its rules of broadcasting
                    row[0], row[1], row[2], row[3] = i, j, m, c
                    longest = max(longest, t)
                    found = True
        i, p = stages[best - s, 1] + 1, stages[best - s, 2]
        r = left_after[p, r]
    return f[best, 0, all_devices, 0], longest, stages
