"""`ratio` and `rested`: those of `draws.Draws`, for kernels; apart, since who draws need not load the compiler."""

from __future__ import annotations

import numpy as np

from ..jit import inner

__all__ = ["ratio", "rested"]


@inner(forceinline=True)
def ratio(slow, window_s, keys, visits, device, at, visit):
    """`Draws.ratio` for kernels: `device` and `visit` are integers, `at` is seconds >= 0."""
    windows = slow.shape[1]
    window = np.int64(at / window_s) if windows > 1 else np.int64(0)
    if window >= windows:  # a division costs as much as all else here, and paths are as long as runs
        window %= windows
    factor = slow[device, window]
    n = visits.shape[0]
    if n == 1:
        return factor * visits[0]
    z = keys[device] + (np.uint64(visit) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    place = float(z >> np.uint64(11)) * 2.0**-53 * n - 0.5
    if place <= 0.0:
        return factor * visits[0]
    if place >= n - 1:
        return factor * visits[n - 1]
    low = np.int64(place)
    return factor * (visits[low] + (visits[low + 1] - visits[low]) * (place - low))


@inner
def rested(rest_s, rest, idle):
    """`Draws.rested` for kernels."""
    factor = 1.0
    for k in range(rest_s.shape[0]):
        if idle < rest_s[k]:
            break
        factor = rest[k]
    return factor
