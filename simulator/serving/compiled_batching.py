"""The compiled engine with dynamic batching; restates `batching.BatchingController` as arithmetic.

A model's requests wait only while no group that holds it is idle, so those waiting are always a contiguous run of that
model's arrivals: two counters per model are its queue.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from .kernel import POLICY
from .policy import TOLERANCE_S
from .tables import ServingTables

__all__ = ["run_batching"]


@numba.njit(cache=True, nogil=True, error_model="numpy", boundscheck=False, inline="always")
def _end(now, clock, latency, wire, last):
    """When a batch that enters at `now` leaves the last stage, seconds."""
    t = now
    for k in range(last):
        t = max(t, clock[k]) + latency[k] + wire
    return max(t, clock[last]) + latency[last]


@numba.njit(cache=True, nogil=True, error_model="numpy", boundscheck=False)
def serve_batching(arrival, model, slo, by_model, first, model_start, pair_group, hosted_start, hosted, latency, hop,
                   stages, sizes, policy, admission, overhead, clock, finish, group_of, start, batch_of):  # fmt: skip
    """Serve every request with batching; writes finish, group_of, start (stage 0) and batch_of, shapes (n,).

    `by_model` lists the requests of each model in order of arrival, model m's from ``first[m]`` on. `hosted` lists
    the pairs of each group. `latency` is (pairs, sizes, stages).
    """
    n = arrival.shape[0]
    n_groups = stages.shape[0]
    queue = first[:-1].copy()  # next waiting request of each model, as a position in by_model
    seen = first[:-1].copy()  # one past the last arrived
    free_at = np.full(n_groups, np.inf)  # when the first stage of a busy group is free; inf if idle
    size = 64
    ring_time = np.empty((n_groups, size))
    ring_count = np.empty((n_groups, size), np.int64)
    head = np.zeros(n_groups, np.int64)
    tail = np.zeros(n_groups, np.int64)
    outstanding = np.zeros(n_groups, np.int64)
    model_of_pair = np.empty(pair_group.shape[0], np.int64)
    for m in range(model_start.shape[0] - 1):
        for p in range(model_start[m], model_start[m + 1]):
            model_of_pair[p] = m
    next_free = np.inf
    next_group = -1
    i = 0
    while True:
        now = arrival[i] if i < n else np.inf
        if next_free <= now:  # completions come before arrivals
            if next_group < 0:
                break
            now = next_free
            g = next_group
            free_at[g] = np.inf
            chosen = -1
            while True:
                oldest = n
                chosen = -1
                for j in range(hosted_start[g], hosted_start[g + 1]):
                    m = model_of_pair[hosted[j]]
                    if queue[m] < seen[m] and by_model[queue[m]] < oldest:
                        oldest = by_model[queue[m]]
                        chosen = hosted[j]
                if chosen < 0:
                    break
                if not admission:
                    break
                done = _end(now, clock[g], latency[chosen, 0], hop[chosen], stages[g] - 1) + overhead
                if done <= arrival[oldest] + slo[oldest] + TOLERANCE_S:
                    break
                finish[oldest] = np.nan
                group_of[oldest] = -1
                start[oldest] = np.nan
                batch_of[oldest] = 0
                queue[model_of_pair[chosen]] += 1
            if chosen >= 0:
                m = model_of_pair[chosen]
                column = 0
                members = 1
                lead = by_model[queue[m]]
                tightest = arrival[lead] + slo[lead]
                for c in range(1, sizes.shape[0]):
                    if sizes[c] > seen[m] - queue[m]:
                        break
                    while members < sizes[c]:
                        r = by_model[queue[m] + members]
                        tightest = min(tightest, arrival[r] + slo[r])
                        members += 1
                    if np.isnan(latency[chosen, c, 0]):
                        continue
                    done = _end(now, clock[g], latency[chosen, c], hop[chosen], stages[g] - 1) + overhead
                    if not admission or done <= tightest + TOLERANCE_S:
                        column = c
        else:
            m = model[i]
            i += 1
            chosen = -1
            best_key = np.inf
            for p in range(model_start[m], model_start[m + 1]):
                q = pair_group[p]
                if free_at[q] != np.inf:
                    continue
                if policy == 0:
                    while head[q] < tail[q] and ring_time[q, head[q] & (size - 1)] <= now:
                        outstanding[q] -= ring_count[q, head[q] & (size - 1)]
                        head[q] += 1
                    key = float(outstanding[q])
                elif policy == 1:
                    key = _end(now, clock[q], latency[p, 0], hop[p], stages[q] - 1)
                else:
                    key = clock[q, stages[q] - 1]
                if key < best_key:
                    best_key = key
                    chosen = p
            r = i - 1
            seen[m] += 1
            if chosen < 0:
                if model_start[m] < model_start[m + 1]:
                    continue  # waits
            else:
                g = pair_group[chosen]
                column = 0
                if admission:
                    done = _end(now, clock[g], latency[chosen, 0], hop[chosen], stages[g] - 1) + overhead
                    if done > now + slo[r] + TOLERANCE_S:
                        chosen = -1
            if chosen < 0:
                finish[r] = np.nan
                group_of[r] = -1
                start[r] = np.nan
                batch_of[r] = 0
                queue[m] += 1
                continue
        if chosen >= 0:
            last = stages[g] - 1
            t = now
            for k in range(last):
                t = max(t, clock[g, k]) + latency[chosen, column, k]
                clock[g, k] = t
                t += hop[chosen]
            t = max(t, clock[g, last]) + latency[chosen, column, last]
            clock[g, last] = t
            free_at[g] = clock[g, 0]
            done = t + overhead
            for j in range(sizes[column]):
                r = by_model[queue[m] + j]
                finish[r] = done
                group_of[r] = g
                start[r] = now
                batch_of[r] = sizes[column]
            queue[m] += sizes[column]
            if policy == 0:
                while head[g] < tail[g] and ring_time[g, head[g] & (size - 1)] <= now:
                    outstanding[g] -= ring_count[g, head[g] & (size - 1)]
                    head[g] += 1
                if tail[g] - head[g] == size:
                    wider_time = np.empty((n_groups, 2 * size))
                    wider_count = np.empty((n_groups, 2 * size), np.int64)
                    for q in range(n_groups):
                        for j in range(head[q], tail[q]):
                            wider_time[q, j & (2 * size - 1)] = ring_time[q, j & (size - 1)]
                            wider_count[q, j & (2 * size - 1)] = ring_count[q, j & (size - 1)]
                    ring_time = wider_time
                    ring_count = wider_count
                    size *= 2
                ring_time[g, tail[g] & (size - 1)] = done
                ring_count[g, tail[g] & (size - 1)] = sizes[column]
                tail[g] += 1
                outstanding[g] += sizes[column]
        next_free = np.inf
        next_group = -1
        for q in range(n_groups):
            if free_at[q] < next_free:
                next_free = free_at[q]
                next_group = q


def run_batching(
    arrival: npt.NDArray[np.float64],
    model: npt.NDArray[np.int32],
    slo: npt.NDArray[np.float64],
    tables: ServingTables,
    dispatch: str,
    admission: bool,
    overhead: float,
    clock: npt.NDArray[np.float64] | None = None,
) -> tuple[
    npt.NDArray[np.float64], npt.NDArray[np.int32], npt.NDArray[np.float64], npt.NDArray[np.float64],
    npt.NDArray[np.int32],
]:  # fmt: skip
    """Serve a trace with batching. Returns ``(finish, group, clock, start, batch)``; see `compiled.run`."""
    n = len(arrival)
    finish, start = np.empty(n), np.empty(n)
    group, batch = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32)
    if clock is None:
        clock = np.zeros((tables.n_groups, tables.latency.shape[2]))
    by_model = np.argsort(model, kind="stable")
    first = np.concatenate(([0], np.cumsum(np.bincount(model, minlength=tables.n_models))))
    hosted = np.argsort(tables.pair_group, kind="stable")
    hosted_start = np.searchsorted(tables.pair_group[hosted], np.arange(tables.n_groups + 1))
    serve_batching(
        arrival, model, slo, by_model, first, tables.model_start, tables.pair_group, hosted_start, hosted,
        tables.latency, tables.hop, tables.stages, tables.sizes, POLICY[dispatch], admission, overhead, clock,
        finish, group, start, batch,
    )  # fmt: skip
    return finish, group, clock, start, batch
