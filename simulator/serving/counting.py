"""Counting what a placement would attain, without a column per request: what planners call in their inner loop.

`count` is the compiled engine (`compiled.serve`) with counters in place of the outputs, over a subset of the requests,
and with leave to give up. A placement is described by *rows* of one latency table that is built once per search, so a
candidate costs a few short integer arrays and no copying of latencies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt

from ...errors import InputError
from .compiled import POLICY
from .policy import TOLERANCE_S, check_dispatch
from .tables import ServingTables

__all__ = ["Counts", "count", "count_served", "rows_of"]

_RING = 16  # finishes kept per group before the ring grows; a power of two


@dataclass(frozen=True, eq=False, slots=True)
class Counts:
    """What a placement attains on a set of requests.

    Parameters
    ----------
    attained : int
        Requests finished within their SLO.
    attained_per_model : ndarray of int64, shape (n_models,)
        The same for each model of the trace.
    dispatched : ndarray of int64, shape (n_groups,)
        Requests sent to each group, those that it then rejected included.
    busy : ndarray of float64, shape (n_groups,)
        Seconds of stage time that each group worked, summed over its stages.
    latency : float
        Sum of the latencies of the served requests, seconds.
    seen : int
        Requests looked at.
    complete : bool
        False if counting stopped early because more than `limit` requests had missed their SLO; the other fields then
        cover the first `seen` requests only.
    """

    attained: int
    attained_per_model: npt.NDArray[np.int64]
    dispatched: npt.NDArray[np.int64]
    busy: npt.NDArray[np.float64]
    latency: float
    seen: int
    complete: bool


@numba.njit(cache=True, nogil=True, error_model="numpy", boundscheck=False)
def count(arrival, model, slo, rows, model_start, pair_group, pair_row, latency, hop, stages, policy, admission,
          overhead, limit, attained, dispatched, busy):  # fmt: skip
    """Serve the requests `rows` (ascending) and add to `attained`, `dispatched`, `busy`; see `Counts`.

    Stops after the request that makes more than `limit` miss their SLO.

    Shapes: arrival, model, slo (n,); rows (r,) integer; model_start (models + 1,); pair_group, pair_row (pairs,);
    latency (table rows, stages) and hop (table rows,), where ``pair_row[p]`` is the row of pair p; stages (groups,);
    attained (models,), dispatched and busy (groups,).

    Returns
    -------
    tuple of (int, int, float)
        Requests attained, requests seen, and the sum of the latencies of served requests, seconds.
    """
    n_groups = stages.shape[0]
    size = _RING
    ring = np.empty((n_groups, size))
    head = np.zeros(n_groups, np.int64)
    tail = np.zeros(n_groups, np.int64)
    due = np.full(n_groups, np.inf)  # the earliest finish still ahead, inf if none
    clock = np.zeros((n_groups, latency.shape[1]))
    ends = np.empty(latency.shape[1])
    good = 0
    missed = 0
    total = 0.0
    for r in range(rows.shape[0]):
        i = rows[r]
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
                queued = tail[g] - head[g]
                if queued < best_count:
                    best_count = queued
                    best = p
        elif policy == 1:
            for p in range(model_start[m], model_start[m + 1]):
                g = pair_group[p]
                row = pair_row[p]
                last = stages[g] - 1
                t = now
                for k in range(last):
                    t = max(t, clock[g, k]) + latency[row, k] + hop[row]
                t = max(t, clock[g, last]) + latency[row, last]
                if t < best_key:
                    best_key = t
                    best = p
        else:
            for p in range(model_start[m], model_start[m + 1]):
                g = pair_group[p]
                if clock[g, stages[g] - 1] < best_key:
                    best_key = clock[g, stages[g] - 1]
                    best = p
        in_time = False
        if best >= 0:
            g = pair_group[best]
            row = pair_row[best]
            dispatched[g] += 1
            last = stages[g] - 1
            wire = hop[row]
            work = 0.0
            t = now
            for k in range(last):
                t = max(t, clock[g, k]) + latency[row, k]
                work += latency[row, k]
                ends[k] = t
                t += wire
            t = max(t, clock[g, last]) + latency[row, last]
            work += latency[row, last]
            done = t + overhead
            in_time = done <= now + slo[i] + TOLERANCE_S
            if in_time or not admission:
                for k in range(last):
                    clock[g, k] = ends[k]
                clock[g, last] = t
                busy[g] += work
                total += done - now
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
        if in_time:
            attained[m] += 1
            good += 1
        else:
            missed += 1
            if missed > limit:
                return good, r + 1, total
    return good, rows.shape[0], total


def rows_of(model: npt.NDArray[np.int32], models: npt.ArrayLike, n_models: int) -> npt.NDArray[np.int64]:
    """Rows of the requests that ask for one of `models` (indices), ascending."""
    wanted = np.zeros(n_models, dtype=bool)
    wanted[np.asarray(models)] = True
    return np.flatnonzero(wanted[model])


def count_served(
    arrival: npt.NDArray[np.float64],
    model: npt.NDArray[np.int32],
    slo: npt.NDArray[np.float64],
    tables: ServingTables,
    *,
    dispatch: str = "shortest_queue",
    admission: bool = True,
    overhead: float = 0.0,
    rows: npt.NDArray[np.int64] | None = None,
    limit: int | None = None,
) -> Counts:
    """Count what a placement attains, as `simulate` would, without a column per request.

    Parameters
    ----------
    arrival, model, slo : ndarray, shape (n,)
        Columns of a trace.
    tables : ServingTables
        The placement.
    dispatch, admission, overhead
        As in `simulate`.
    rows : ndarray of int, optional
        The requests to serve, ascending (`rows_of`); all if not given.
    limit : int, optional
        Give up once more than this many requests missed their SLO.

    Raises
    ------
    InputError
        On an unknown dispatch policy or a negative limit.
    """
    check_dispatch(dispatch)
    if limit is not None and limit < 0:
        raise InputError(f"limit: expected a count >= 0 or None (got {limit})")
    chosen = np.arange(len(arrival)) if rows is None else rows
    attained = np.zeros(tables.n_models, dtype=np.int64)
    dispatched = np.zeros(tables.n_groups, dtype=np.int64)
    busy = np.zeros(tables.n_groups)
    good, seen, total = count(
        arrival, model, slo, chosen, tables.model_start, tables.pair_group,
        np.arange(len(tables.pair_group), dtype=np.int32), np.ascontiguousarray(tables.latency[:, 0, :]),
        tables.hop, tables.stages, POLICY[dispatch], admission, overhead,
        len(chosen) if limit is None else limit, attained, dispatched, busy,
    )  # fmt: skip
    return Counts(good, attained, dispatched, busy, total, seen, limit is None or seen - good <= limit)
