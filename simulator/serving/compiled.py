"""The compiled engine without batching: one pass over the trace, O(1) work per request and hosting group.

`serve` holds the whole semantics (DESIGN §6); the loop is plain Python source under `numba.njit`.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from .policy import TOLERANCE_S
from .tables import ServingTables

__all__ = ["POLICY", "run", "serve"]

POLICY = {"shortest_queue": 0, "earliest_finish": 1, "earliest_free": 2}
_RING = 16  # finishes kept per group before the ring grows; a power of two


@numba.njit(cache=True, nogil=True, error_model="numpy", boundscheck=False)
def serve(arrival, model, slo, model_start, pair_group, latency, hop, stages, policy, admission, overhead, clock,
          finish, group_of):  # fmt: skip
    """Serve every request; writes `finish` (NaN if rejected) and `group_of` (-1), updates `clock` in place.

    Shapes: arrival, model, slo, finish, group_of (n,); latency (pairs, stages); clock (groups, stages).
    A group's finishes never decrease, so a ring of those still ahead counts its outstanding requests: `head` and
    `tail` run on, the ring is read modulo its size.
    """
    n_groups = stages.shape[0]
    size = _RING
    ring = np.empty((n_groups, size))
    head = np.zeros(n_groups, np.int64)
    tail = np.zeros(n_groups, np.int64)
    due = np.full(n_groups, np.inf)  # the earliest finish still ahead, inf if none
    ends = np.empty(clock.shape[1])
    for i in range(arrival.shape[0]):
        now = arrival[i]
        m = model[i]
        best = -1
        best_key = np.inf
        if policy == 0:
            best_count = np.int64(1 << 62)
            for p in range(model_start[m], model_start[m + 1]):
                g = pair_group[p]
                if due[g] <= now:
                    h = head[g] + 1
                    while h < tail[g] and ring[g, h & (size - 1)] <= now:
                        h += 1
                    head[g] = h
                    due[g] = ring[g, h & (size - 1)] if h < tail[g] else np.inf
                count = tail[g] - head[g]
                if count < best_count:
                    best_count = count
                    best = p
        elif policy == 1:
            for p in range(model_start[m], model_start[m + 1]):
                g = pair_group[p]
                last = stages[g] - 1
                t = now
                for k in range(last):
                    t = max(t, clock[g, k]) + latency[p, k] + hop[p]
                t = max(t, clock[g, last]) + latency[p, last]
                if t < best_key:
                    best_key = t
                    best = p
        else:
            for p in range(model_start[m], model_start[m + 1]):
                g = pair_group[p]
                if clock[g, stages[g] - 1] < best_key:
                    best_key = clock[g, stages[g] - 1]
                    best = p
        if best < 0:
            finish[i] = np.nan
            group_of[i] = -1
            continue
        g = pair_group[best]
        last = stages[g] - 1
        wire = hop[best]
        t = now
        for k in range(last):
            t = max(t, clock[g, k]) + latency[best, k]
            ends[k] = t
            t += wire
        t = max(t, clock[g, last]) + latency[best, last]
        done = t + overhead
        if admission and done > now + slo[i] + TOLERANCE_S:
            finish[i] = np.nan
            group_of[i] = -1
            continue
        for k in range(last):
            clock[g, k] = ends[k]
        clock[g, last] = t
        finish[i] = done
        group_of[i] = g
        if policy == 0:
            if tail[g] - head[g] == size:
                wider = np.empty((n_groups, 2 * size))
                for q in range(n_groups):
                    for j in range(head[q], tail[q]):
                        wider[q, j & (2 * size - 1)] = ring[q, j & (size - 1)]
                ring = wider
                size *= 2
            ring[g, tail[g] & (size - 1)] = done
            if tail[g] == head[g]:
                due[g] = done
            tail[g] += 1


def run(
    arrival: npt.NDArray[np.float64],
    model: npt.NDArray[np.int32],
    slo: npt.NDArray[np.float64],
    tables: ServingTables,
    dispatch: str,
    admission: bool,
    overhead: float,
    clock: npt.NDArray[np.float64] | None = None,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int32], npt.NDArray[np.float64]]:
    """Serve a trace.

    Returns
    -------
    finish : ndarray of float64, shape (n,)
        Finish of each request, seconds, overhead included; NaN where rejected.
    group : ndarray of int32, shape (n,)
        Group that served it; -1 where rejected.
    clock : ndarray of float64, shape (n_groups, max_stages)
        When each stage is free in the end, seconds.
    """
    n = len(arrival)
    finish = np.empty(n)
    group = np.empty(n, dtype=np.int32)
    if clock is None:
        clock = np.zeros((tables.n_groups, tables.latency.shape[2]))
    serve(
        arrival, model, slo, tables.model_start, tables.pair_group,
        np.ascontiguousarray(tables.latency[:, 0, :]), tables.hop, tables.stages, POLICY[dispatch],
        admission, overhead, clock, finish, group,
    )  # fmt: skip
    return finish, group, clock
