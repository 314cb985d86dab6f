"""The compiled serving loop: one pass over the requests, O(1) work per request and hosting group.

`_make` compiles it, once per dispatch policy and kind of output (columns or counts); `serve` drives it. What costs time
here is not arithmetic but branches that the processor guesses wrong (about 5 ns each). So:

- A group's finishes never decrease; the last of them lie in a ring. Where few groups hold a model, its queue is
  *scanned*: eight comparisons without a branch. Once a queue outgrows that, or where many groups hold a model, queues
  are *counted*: ``due`` holds the first finish ahead, an ``inf`` ends the ring, ``due <= now`` is the only test.
- The shortest queue is a minimum over integers ``queued << 32 | pair``: no branch, and ties go to the lowest pair.
- A group has two rows of stage clocks. A prediction is written into the spare one; to admit a request is to swap them.
- A pass that finds a ring full returns; the driver widens the ring and goes on. The loop itself allocates nothing.
- Indices are unsigned: numba then emits no code for negative ones. A policy is a constant of its pass, not a branch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ....jit import inner, kernel
from ..policy import TOLERANCE_S

__all__ = ["POLICY", "serve"]

POLICY = {"shortest_queue": 0, "earliest_finish": 1, "earliest_free": 2}

_COUNT, _FINISH, _FREE, _SCAN = range(4)  # the first three as in POLICY
# A pair below, what it is compared by above: one unsigned minimum finds both, and the lowest pair wins a tie.
_ONE, _PAIR_BITS = np.uint64(1), np.uint64(32)
_PAIR_MASK = np.uint64(2**32 - 1)
_NEVER = np.uint64(2**64 - 1)
_SCANNED = np.uint64(8)  # eight float64 are one cache line
_SCAN_PAIRS = 4  # scan where a model is held by no more groups than this, on average: a guess, of speed alone


@inner(forceinline=True)
def _scan(now, low, high, pair_group, ring):
    """The pair in ``low … high - 1`` whose group has the fewest finishes ahead among its last eight."""
    best = _NEVER
    for p in range(low, high):
        g = pair_group[p]
        ahead = np.uint64(0)
        for j in range(_SCANNED):
            ahead += np.uint64(ring[g, j] > now)
        best = min(best, (ahead << _PAIR_BITS) | p)
    return best & _PAIR_MASK


@inner(forceinline=True)
def _count(now, low, high, pair_group, ring, head, queued, due):
    """The pair in ``low … high - 1`` whose group has the fewest requests ahead, after counting out the finished."""
    mask = np.uint64(ring.shape[1]) - _ONE
    best = _NEVER
    for p in range(low, high):
        g = pair_group[p]
        finish = due[g]
        if finish <= now:
            at = head[g]
            left = queued[g]
            while finish <= now:
                at += _ONE
                left -= _ONE
                finish = ring[g, at & mask]
            head[g] = at
            queued[g] = left
            due[g] = finish
        best = min(best, (queued[g] << _PAIR_BITS) | p)
    return best & _PAIR_MASK


@inner(forceinline=True)
def _earliest_finish(now, low, high, pair_group, pair_row, clock, side, latency, hop, stages):
    """The pair in ``low … high - 1`` that would finish the request first."""
    best = low
    best_finish = np.inf
    for p in range(low, high):
        g = pair_group[p]
        row = pair_row[p]
        last = stages[g] - _ONE
        valid = side[g]
        t = now
        for k in range(last):
            free = clock[valid, k]
            t = (t if t > free else free) + latency[row, k] + hop[row]
        free = clock[valid, last]
        t = (t if t > free else free) + latency[row, last]
        best = p if t < best_finish else best
        best_finish = min(best_finish, t)
    return best


@inner(forceinline=True)
def _earliest_free(low, high, pair_group, clock, side, stages):
    """The pair in ``low … high - 1`` whose group's last stage is free first."""
    best = low
    best_free = np.inf
    for p in range(low, high):
        g = pair_group[p]
        free = clock[side[g], stages[g] - _ONE]
        best = p if free < best_free else best
        best_free = min(best_free, free)
    return best


@inner(forceinline=True)
def _through(now, clock, valid, spare, latency, row, wire, last):
    """When a request that enters at `now` leaves the last stage, seconds.

    ``clock[valid]`` says when each stage is free; ``clock[spare]`` receives when it is free after the request.
    """
    t = now
    for k in range(last):
        free = clock[valid, k]
        t = (t if t > free else free) + latency[row, k]
        clock[spare, k] = t
        t += wire
    free = clock[valid, last]
    t = (t if t > free else free) + latency[row, last]
    clock[spare, last] = t
    return t


def _make(policy: int, counting: bool) -> Callable[..., Any]:
    """The pass of one policy. It returns how many requests it has looked at, negative if it gave up."""

    @kernel
    def serve(begin, arrival, model, slo, rows, model_start, pair_group, pair_row, latency, hop, stages, admission,
              overhead, limit, clock, side, ring, head, queued, due, finish, group_of, sent, served, attained,
              seconds):  # fmt: skip
        mask = np.uint64(ring.shape[1]) - _ONE
        missed = np.int64(begin)
        if counting:
            for p in range(attained.shape[0]):
                missed -= attained[p]
        total = seconds[0]
        for r in range(np.uint64(begin), np.uint64(rows.shape[0] if counting else arrival.shape[0])):
            i = np.uint64(rows[r]) if counting else r
            now = arrival[i]
            m = np.uint64(model[i])
            low = model_start[m]
            high = model_start[m + _ONE]
            in_time = False
            if low < high:
                if policy == _SCAN:
                    p = _scan(now, low, high, pair_group, ring)
                elif policy == _COUNT:
                    p = _count(now, low, high, pair_group, ring, head, queued, due)
                elif policy == _FINISH:
                    p = _earliest_finish(now, low, high, pair_group, pair_row, clock, side, latency, hop, stages)
                else:
                    p = _earliest_free(low, high, pair_group, clock, side, stages)
                g = pair_group[p]
                row = pair_row[p]
                valid = side[g]
                spare = valid ^ _ONE
                t = _through(now, clock, valid, spare, latency, row, hop[row], stages[g] - _ONE)
                done = t + overhead
                in_time = done <= now + slo[i] + TOLERANCE_S
                if in_time or not admission:
                    if policy == _SCAN:
                        at = head[g] & mask
                        if ring[g, at] > now:
                            seconds[0] = total
                            return np.int64(r)
                        ring[g, at] = done
                        head[g] += _ONE
                    if policy == _COUNT:
                        if queued[g] == mask:  # one place is for the inf at the end
                            seconds[0] = total
                            return np.int64(r)
                        at = head[g] + queued[g]
                        ring[g, at & mask] = done
                        ring[g, (at + _ONE) & mask] = np.inf
                        queued[g] += _ONE
                        due[g] = min(due[g], done)
                    side[g] = spare
                    if counting:
                        served[p] += 1
                        attained[p] += in_time
                        total += done - now
                    else:
                        finish[i] = done
                        group_of[i] = g
                elif not counting:
                    finish[i] = np.nan
                    group_of[i] = -1
                if counting:
                    sent[p] += 1
            elif not counting:
                finish[i] = np.nan
                group_of[i] = -1
            if counting and not in_time:
                missed += 1
                if missed > limit:
                    seconds[0] = total
                    return -np.int64(r) - 1
        seconds[0] = total
        return np.int64(rows.shape[0] if counting else arrival.shape[0])

    return serve


_PASSES = {(policy, counting): _make(policy, counting) for policy in range(4) for counting in (False, True)}
_EMPTY = np.zeros(0, dtype=np.int64)
_NOTHING, _NOTHING_INT = np.zeros(0), np.zeros(0, dtype=np.int32)


@kernel
def _begin_counting(now, ring, wider, head, queued, due):
    """From scanned queues (where `head` is one past the newest finish) to counted ones, in a ring twice as wide."""
    for g in range(ring.shape[0]):
        end = head[g]
        while queued[g] < _SCANNED and ring[g, (head[g] - _ONE) % _SCANNED] > now:
            head[g] -= _ONE
            queued[g] += _ONE
        for j in range(head[g], end):
            wider[g, j % (_SCANNED + _SCANNED)] = ring[g, j % _SCANNED]
        due[g] = wider[g, head[g] % (_SCANNED + _SCANNED)]


@kernel
def _grow(ring, wider, head, queued):
    """The same content in a ring twice as wide."""
    size = np.uint64(ring.shape[1])
    for g in range(ring.shape[0]):
        for j in range(head[g], head[g] + queued[g]):
            wider[g, j & (size + size - _ONE)] = ring[g, j & (size - _ONE)]


def _wider(ring: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """An empty ring twice as wide: made here, because numba takes longer to compile an allocation than the copy."""
    return np.full((ring.shape[0], 2 * ring.shape[1]), np.inf)


def serve(
    columns: tuple[npt.NDArray[np.float64], npt.NDArray[np.int32], npt.NDArray[np.float64]],
    rows: npt.NDArray[np.integer] | None,
    pairs: tuple[npt.NDArray[np.integer], npt.NDArray[np.integer], npt.NDArray[np.integer]],
    latency: npt.NDArray[np.float64],
    hop: npt.NDArray[np.float64],
    stages: npt.NDArray[np.integer],
    policy: int,
    admission: bool,
    overhead: float,
    limit: int,
    clock: npt.NDArray[np.float64],
    outputs: tuple[npt.NDArray, ...],
) -> tuple[int, float]:
    """Serve requests with one placement.

    Parameters
    ----------
    columns : tuple of ndarray, shape (n,) each
        Arrival, model and SLO of every request.
    rows : ndarray of int, shape (r,), optional
        None: serve all and write a column per request. Else: serve these, ascending, and count.
    pairs : tuple of ndarray
        ``model_start`` (models + 1,), ``pair_group`` and ``pair_row`` (pairs,): the pairs of model m are
        ``model_start[m]`` to ``model_start[m + 1] - 1``; pair p is of group ``pair_group[p]``, and its latencies are
        row ``pair_row[p]`` of the table.
    latency, hop : ndarray of float64, shapes (table rows, max_stages), (table rows,)
        The latency table, seconds.
    stages : ndarray of int, shape (groups,)
        Pipeline stages of each group.
    policy : int
        A value of `POLICY`.
    admission, overhead
        As in `simulate`.
    limit : int
        When counting: stop after the request that makes more than `limit` miss their SLO.
    clock : ndarray of float64, shape (groups, max_stages)
        When each stage is free, seconds; updated in place.
    outputs : tuple of ndarray
        Without `rows`: finish, group, shape (n,). With `rows`: requests sent, served, attained, shape (pairs,).

    Returns
    -------
    tuple of (int, float)
        Requests looked at, and the sum of the latencies of those served, seconds (0 unless counting).
    """
    counting = rows is not None
    arrival = columns[0]
    chosen = _EMPTY if rows is None else rows
    n = len(chosen) if counting else len(arrival)
    model_start, pair_group, pair_row = (x.astype(np.uint64) for x in pairs)
    n_groups = len(stages)
    clocks = np.empty((2 * n_groups, clock.shape[1]))  # of group g: rows 2g and 2g + 1; side[g] is the valid one
    clocks[::2] = clock
    side = np.arange(0, 2 * n_groups, 2, dtype=np.uint64)
    head, queued, due = np.zeros(n_groups, np.uint64), np.zeros(n_groups, np.uint64), np.full(n_groups, np.inf)
    ring = np.full((n_groups, int(_SCANNED)), -np.inf)
    if policy == _COUNT:
        if len(pair_group) <= _SCAN_PAIRS * (len(model_start) - 1):
            policy = _SCAN
        else:
            old, ring = ring, _wider(ring)
            _begin_counting(0.0, old, ring, head, queued, due)
    unused = (_NOTHING, _NOTHING_INT, _EMPTY, _EMPTY, _EMPTY)
    written = (*unused[:2], *outputs) if counting else (*outputs, *unused[2:])
    seconds = np.zeros(1)
    at = 0
    while True:
        at = _PASSES[policy, counting](
            at, *columns, chosen, model_start, pair_group, pair_row, latency, hop, stages.astype(np.uint64), admission,
            overhead, limit, clocks, side, ring, head, queued, due, *written, seconds,
        )  # fmt: skip
        if at < 0 or at == n:
            break
        if policy == _SCAN:  # a ninth request ahead: from here on queues are counted
            policy = _COUNT
            old, ring = ring, _wider(ring)
            _begin_counting(arrival[chosen[at] if counting else at], old, ring, head, queued, due)
        else:
            old, ring = ring, _wider(ring)
            _grow(old, ring, head, queued)
    clock[:] = clocks[side]
    return abs(at), float(seconds[0])
