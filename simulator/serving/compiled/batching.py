"""The compiled engine with dynamic batching: `batching.BatchingController` restated as arithmetic.

A model's requests wait only while no group that holds it is idle. Those that wait are therefore a contiguous run of the
model's arrivals: two counters per model are its queue, and `heads` holds the oldest request of each. It matters only
while something waits when a group becomes idle; a small tournament tree (`ends`, `winner`) knows which group is next.
See `kernel` for why the loop looks as it does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ....jit import inner, kernel
from ..policy import TOLERANCE_S
from ..tables import ServingTables
from .kernel import POLICY

__all__ = ["run_batching"]

_ONE = np.uint64(1)
_NONE = np.uint64(2**64 - 1)
_PAIR_BITS, _PAIR_MASK = np.uint64(32), np.uint64(2**32 - 1)
# Requests outstanding on a group that a ring holds at first. A guess, as `_grow` doubles it; a power of two, because
# places are found with a mask.
_RING = 64


@inner(forceinline=True)
def _end(now, clock, g, latency, p, column, wire, last):
    """When a batch that enters at `now` leaves the last stage, seconds."""
    t = now
    for k in range(last):
        free = clock[g, k]
        t = (t if t > free else free) + latency[p, column, k] + wire
    free = clock[g, last]
    return (t if t > free else free) + latency[p, column, last]


@inner(forceinline=True)
def _free_at(g, time, ends, winner):
    """Note that group `g` is busy until `time`, and replay its matches in the tournament tree.

    ``ends[j]`` is the earliest time below node j and ``winner[j]`` its group. The leaf of group g is ``size + g``, the
    root is node 1. The lower index wins a tie, as the reference's priorities have it.
    """
    at = (np.uint64(ends.shape[0]) >> _ONE) + g
    ends[at] = time
    at >>= _ONE
    while at > np.uint64(0):
        left, right = at << _ONE, (at << _ONE) + _ONE
        first = ends[left] <= ends[right]
        ends[at] = ends[left] if first else ends[right]
        winner[at] = winner[left] if first else winner[right]
        at >>= _ONE


@inner(forceinline=True)
def _oldest(g, hosted_start, hosted, model_of_pair, heads):
    """The pair of group `g` whose model's head arrived first, and that request; `_NONE` if none waits."""
    best = _NONE
    for j in range(hosted_start[g], hosted_start[g + _ONE]):
        p = hosted[j]
        best = min(best, (heads[model_of_pair[p]] << _PAIR_BITS) | p)
    return best


@kernel
def _group_by_model(model, first):
    """Requests of each model in order of arrival, model m's from ``first[m]`` on."""
    place = first[:-1].copy()
    out = np.empty(model.shape[0], np.uint64)
    for i in range(model.shape[0]):
        m = model[i]
        out[place[m]] = i
        place[m] += _ONE
    return out


def _make(policy: int) -> Callable[..., Any]:
    @kernel
    def serve(arrival, model, slo, by_model, first, model_start, pair_group, model_of_pair, hosted_start, hosted,
              latency, hop, stages, sizes, admission, overhead, clock, ends, winner, finish, group_of, start,
              batch_of):  # fmt: skip
        n = np.uint64(arrival.shape[0])
        n_groups = stages.shape[0]
        queue = first[:-1].copy()  # next waiting request of each model, as a position in by_model
        seen = first[:-1].copy()  # one past the last arrived
        heads = np.full(queue.shape[0], _NONE >> _PAIR_BITS)
        waiting = 0
        ring = np.empty((n_groups, _RING))
        ring_count = np.empty((n_groups, _RING), np.int64)
        head, tail = np.zeros(n_groups, np.uint64), np.zeros(n_groups, np.uint64)
        outstanding = np.zeros(n_groups, np.int64)
        mask = np.uint64(_RING - 1)
        i = np.uint64(0)
        while True:
            now = arrival[i] if i < n else np.inf
            column = 0
            if waiting > 0 and ends[1] <= now:  # completions come before arrivals
                now = ends[1]
                g = winner[1]
                last = stages[g] - _ONE
                best = _oldest(g, hosted_start, hosted, model_of_pair, heads)
                p = best & _PAIR_MASK
                r = best >> _PAIR_BITS
                if r >= n:  # none of its models has anybody waiting: out of the tournament until it is given work
                    _free_at(g, np.inf, ends, winner)
                    continue
                m = model_of_pair[p]
                tightest = arrival[r] + slo[r] + TOLERANCE_S
                if admission and _end(now, clock, g, latency, p, 0, hop[p], last) + overhead > tightest:
                    finish[r] = np.nan
                    group_of[r] = -1
                    start[r] = np.nan
                    batch_of[r] = 0
                    queue[m] += _ONE
                    waiting -= 1
                    heads[m] = by_model[queue[m]] if queue[m] < seen[m] else _NONE >> _PAIR_BITS
                    continue  # the group is still the winner
                members = _ONE
                for c in range(1, sizes.shape[0]):
                    if sizes[c] > seen[m] - queue[m]:
                        break
                    while members < sizes[c]:
                        r = by_model[queue[m] + members]
                        tightest = min(tightest, arrival[r] + slo[r] + TOLERANCE_S)
                        members += _ONE
                    if latency[p, c, 0] > 0 and (  # not profiled is NaN, which is not above 0
                        not admission or _end(now, clock, g, latency, p, c, hop[p], last) + overhead <= tightest
                    ):
                        column = c
                waiting -= np.int64(sizes[column])
            elif i == n:
                break
            else:
                m = np.uint64(model[i])
                best = _NONE
                best_key = np.inf
                for p in range(model_start[m], model_start[m + _ONE]):
                    q = pair_group[p]
                    if clock[q, 0] > now:
                        continue
                    if policy == 0:
                        while head[q] < tail[q] and ring[q, head[q] & mask] <= now:
                            outstanding[q] -= ring_count[q, head[q] & mask]
                            head[q] += _ONE
                        key = float(outstanding[q])
                    elif policy == 1:
                        key = _end(now, clock, q, latency, p, 0, hop[p], stages[q] - _ONE)
                    else:
                        key = clock[q, stages[q] - _ONE]
                    best = p if key < best_key else best
                    best_key = min(best_key, key)
                r = i
                i += _ONE
                seen[m] += _ONE
                if best == _NONE and model_start[m] < model_start[m + _ONE]:
                    waiting += 1
                    heads[m] = min(heads[m], r)
                    continue
                p = best
                # Any unsigned number will do where there is no pair; it is not read, and one type spares conversions.
                g = pair_group[p] if best != _NONE else _ONE
                last = stages[g] - _ONE if best != _NONE else _ONE
                if best == _NONE or (
                    admission
                    and _end(now, clock, g, latency, p, 0, hop[p], last) + overhead > now + slo[r] + TOLERANCE_S
                ):
                    finish[r] = np.nan
                    group_of[r] = -1
                    start[r] = np.nan
                    batch_of[r] = 0
                    queue[m] += _ONE
                    continue
            t = now
            for k in range(last):
                free = clock[g, k]
                t = (t if t > free else free) + latency[p, column, k]
                clock[g, k] = t
                t += hop[p]
            free = clock[g, last]
            t = (t if t > free else free) + latency[p, column, last]
            clock[g, last] = t
            _free_at(g, clock[g, 0], ends, winner)
            done = t + overhead
            for _ in range(sizes[column]):
                r = by_model[queue[m]]
                finish[r] = done
                group_of[r] = g
                start[r] = now
                batch_of[r] = sizes[column]
                queue[m] += _ONE
            heads[m] = by_model[queue[m]] if queue[m] < seen[m] else _NONE >> _PAIR_BITS
            if policy == 0:
                while head[g] < tail[g] and ring[g, head[g] & mask] <= now:
                    outstanding[g] -= ring_count[g, head[g] & mask]
                    head[g] += _ONE
                if tail[g] - head[g] > mask:
                    ring, ring_count = _grow(ring, ring_count, head, tail)
                    mask = np.uint64(ring.shape[1] - 1)
                ring[g, tail[g] & mask] = done
                ring_count[g, tail[g] & mask] = sizes[column]
                tail[g] += _ONE
                outstanding[g] += np.int64(sizes[column])

    return serve


@kernel
def _grow(ring, ring_count, head, tail):
    """Rings twice as wide with the same content."""
    size = np.uint64(ring.shape[1])
    wider = np.empty((ring.shape[0], 2 * ring.shape[1]))
    wider_count = np.empty((ring.shape[0], 2 * ring.shape[1]), np.int64)
    for g in range(ring.shape[0]):
        for j in range(head[g], tail[g]):
            wider[g, j & (size + size - _ONE)] = ring[g, j & (size - _ONE)]
            wider_count[g, j & (size + size - _ONE)] = ring_count[g, j & (size - _ONE)]
    return wider, wider_count


_PASSES = [_make(policy) for policy in range(len(POLICY))]


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
    """Serve a trace with batching. Returns ``(finish, group, clock, start, batch)``; see `compiled.engine.run`."""
    n = len(arrival)
    finish, start = np.empty(n), np.empty(n)
    group, batch = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32)
    if clock is None:
        clock = np.zeros((tables.n_groups, tables.latency.shape[2]))
    counts = np.bincount(model, minlength=tables.n_models)
    first = np.concatenate(([0], np.cumsum(counts))).astype(np.uint64)
    hosted = np.argsort(tables.pair_group, kind="stable")  # pairs by group, and in each group by model
    hosted_start = np.searchsorted(tables.pair_group[hosted], np.arange(tables.n_groups + 1))
    model_of_pair = np.repeat(np.arange(tables.n_models), np.diff(tables.model_start))
    leaves = 1 << (tables.n_groups - 1).bit_length()  # a complete tree; leaves beyond the groups stay at inf
    winner = np.zeros(2 * leaves, dtype=np.uint64)
    winner[leaves:] = np.arange(leaves)
    indices = (tables.model_start, tables.pair_group, model_of_pair, hosted_start, hosted)
    _PASSES[POLICY[dispatch]](
        arrival, model, slo, _group_by_model(model, first), first, *(x.astype(np.uint64) for x in indices),
        tables.latency, tables.hop, tables.stages.astype(np.uint64), tables.sizes.astype(np.uint64), admission,
        overhead, clock, np.full(2 * leaves, np.inf), winner, finish, group, start, batch,
    )  # fmt: skip
    return finish, group, clock, start, batch
