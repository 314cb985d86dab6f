"""Compiled loops of the greedy scheduler: when stages with given orders end, and Algorithm 4 for one stage."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ....jit import kernel

__all__ = ["BACKWARD", "FORWARD", "finish_s", "greedy"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.int8]

FORWARD, BACKWARD = 0, 1


@kernel
def finish_s(orders: Bytes, counts: Ints, sizes: Ints, seconds: Floats, edges: Ints, ends: Floats) -> float:
    """The time at which stage 0 ends its last pass; inf if the stages deadlock.

    Parameters
    ----------
    orders : ndarray of int8, shape (n_stages, 2 · most microbatches)
        Passes of each stage: FORWARD, BACKWARD.
    counts, sizes : ndarray, shape (n_stages,)
        Number of microbatches of each stage, and samples of one.
    seconds : ndarray, shape (n_stages, 2)
        Seconds of a forward and of a backward pass.
    edges : ndarray, shape (n_edges, 2)
        (stage that makes, stage that reads).
    ends : ndarray, shape (n_stages, 2, most microbatches)
        Written: when each pass ends.
    """
    n = counts.shape[0]
    at = np.zeros(n, np.int64)
    done = np.zeros((n, 2), np.int64)
    clock = np.zeros(n)
    moved = True
    while moved:
        moved = False
        for s in range(n):
            while at[s] < 2 * counts[s]:
                op = orders[s, at[s]]
                j = done[s, op]
                ready = clock[s]
                free = op == 0 or done[s, 0] > j
                for e in range(edges.shape[0]):
                    mine, other = edges[e, 1 - op], edges[e, op]  # forward: I read; backward: I made
                    if mine != s or not free:
                        continue
                    last = ((j + 1) * sizes[s] - 1) // sizes[other]
                    if last >= done[other, op]:
                        free = False
                    else:
                        ready = max(ready, ends[other, op, last])
                if not free:
                    break
                clock[s] = ready + seconds[s, op]
                ends[s, op, j] = clock[s]
                done[s, op] += 1
                at[s] += 1
                moved = True
    for s in range(n):
        if at[s] < 2 * counts[s]:
            return np.inf
    return clock[0]


@kernel
def greedy(orders: Bytes, counts: Ints, sizes: Ints, seconds: Floats, edges: Ints, eager: bool) -> float:
    """Algorithm 4 for stage 0, given the schedules of all stages after it: fills `orders[0]`, returns its seconds.

    To test whether a backward pass may come next, the rest of the schedule is continued in one of two ways: by 1F1B, as
    printed, or (`eager`) by forward passes whenever fewer are in flight than after the warm-up. The latter is the
    quickest of all continuations that hold no more.

    The least time comes from the schedule that does all forward passes first. No schedule is quicker: the stages after
    it start as early as they can, and its own backward passes end no later.
    """
    n = counts[0]
    ends = np.zeros((counts.shape[0], 2, counts.max()))
    order = orders[0]
    order[:n], order[n : 2 * n] = 0, 1
    best = finish_s(orders, counts, sizes, seconds, edges, ends)
    limit = best * (1 + 1e-12)  # another order of the same passes may add up to a few rounding errors more
    order[0] = 0
    forward, backward, warm = 1, 0, n
    for place in range(1, 2 * n):
        order[place] = 0
        if forward == n:
            order[place] = 1
        elif backward < forward:
            f, b = forward, backward
            most = forward if backward == 0 else warm
            turn = 1
            for rest in range(place, 2 * n):
                order[rest] = turn
                if turn == 1:
                    b += 1
                else:
                    f += 1
                if f == n:
                    turn = 1
                elif eager:
                    turn = 0 if f - b < most else 1
                else:
                    turn = 1 - turn
            order[place] = 1
            if finish_s(orders, counts, sizes, seconds, edges, ends) > limit:
                order[place] = 0
        if order[place] == 1:
            if backward == 0:
                warm = forward
            backward += 1
        else:
            forward += 1
    return finish_s(orders, counts, sizes, seconds, edges, ends)
