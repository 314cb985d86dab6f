"""`makespan`, compiled: one direction of a pipeline whose stages take slices in order."""

from __future__ import annotations

import numpy as np

from ....jit import kernel

__all__ = ["makespan"]


@kernel
def makespan(stage_of, seconds):
    """The time at which the last stage is done with the last slice.

    Parameters
    ----------
    stage_of : ndarray of int64, shape (K,)
        Kind of each stage, a row of `seconds`.
    seconds : ndarray of float64, shape (m, n)
        Seconds of each slice, by kind of stage.
    """
    n = seconds.shape[1]
    done = np.zeros(n)
    for kind in stage_of:
        free = 0.0
        for i in range(n):
            free = max(free, done[i]) + seconds[kind, i]
            done[i] = free
    return done[n - 1]
