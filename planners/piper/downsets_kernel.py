"""`stage_pairs`, compiled: which pairs of downsets can be a stage."""

from __future__ import annotations

import numpy as np

from ...jit import kernel

__all__ = ["stage_pairs"]


@kernel
def stage_pairs(start, smaller, heads, seconds, work, degrees, threshold, n_devices, most):
    """Pairs of states whose difference can be a stage; see `Downsets.pairs`.

    If there are more than `most`, it stops and returns one more.

    Parameters
    ----------
    start, smaller : ndarray of int64
        States with one node less; see `Downsets`.
    heads : ndarray of int64
        The higher states, ascending.
    seconds : ndarray of float64, shape (n_states, n_degrees)
        Seconds per sample of the nodes of each state, summed.
    work : ndarray of float64, shape (n_states,)
        Device-seconds per sample of the nodes of each state, summed.
    degrees : ndarray of int64
        Ascending.
    threshold : float
        Seconds per sample.
    n_devices, most : int
        Number of devices, and most pairs.
    """
    n_states = len(start) - 1
    all_work = work[n_states - 1]
    seen = np.full(n_states, -1, np.int64)
    stack = np.empty(n_states, np.int64)
    room = max(1024, 4 * n_states)  # a guess; it doubles when it is full
    low, high, count = np.empty(room, np.int64), np.empty(room, np.int64), 0
    for head in heads:
        stack[0], depth = head, 1
        while depth > 0:
            depth -= 1
            state = stack[depth]
            if state != head:
                needed = 0
                for k in range(len(degrees)):
                    if seconds[head, k] - seconds[state, k] <= threshold:
                        needed = degrees[k]
                        break
                if needed == 0:
                    continue  # what has more nodes takes longer still
                # The margin, here and in the caller's threshold: rounding must not strike out a stage of the best
                # pipeline.
                rest = (all_work - work[head] + work[state]) / threshold * (1 - 1e-9)
                if needed + rest <= n_devices:
                    if count == room:
                        room *= 2
                        more, other = np.empty(room, np.int64), np.empty(room, np.int64)
                        for k in range(count):
                            more[k], other[k] = low[k], high[k]
                        low, high = more, other
                    low[count], high[count] = state, head
                    count += 1
                    if count > most:
                        return low[:count].copy(), high[:count].copy()
            for at in range(start[state], start[state + 1]):
                following = smaller[at]
                if seen[following] != head:
                    seen[following] = head
                    stack[depth] = following
                    depth += 1
    return low[:count].copy(), high[:count].copy()
