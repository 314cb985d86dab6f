"""Compiled: when stages with given orders of passes end, and Algorithm 4 for one stage."""

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
    """When stage 0 ends its last pass; inf if stages wait for each other for ever.

    Parameters
    ----------
    orders : ndarray of int8, shape (n_stages, 2 · most microbatches)
        Passes of each stage: FORWARD, BACKWARD.
    counts, sizes : ndarray, shape (n_stages,)
        Microbatches of each, and their samples.
    seconds : ndarray, shape (n_stages, 2)
        Of a forward and a backward pass.
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
    """Algorithm 4: `orders[0]` becomes the schedule of stage 0, given those of all stages after it; its seconds.

    Whether a backward pass may come next is tried with one continuation: 1F1B as printed, or (`eager`) forward passes
    whenever fewer than the warm-up's are in flight, the quickest of all continuations that hold no more.

    A schedule that does all forward passes first is never slower than another: what follows starts as early as can be,
    and the stage's own backward passes end no later. So it says what the least time is.
    """
    n = counts[0]
    ends = np.zeros((counts.shape[0], 2, counts.max()))
    order = orders[0]
    order[:n], order[n : 2 * n] = 0, 1
    best = finish_s(orders, counts, sizes, seconds, edges, ends)
    limit = best * (1 + 1e-12)
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
