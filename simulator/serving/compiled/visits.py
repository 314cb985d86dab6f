"""`replay`: when requests were in which stage, compiled."""

from __future__ import annotations

from ....jit import kernel

__all__ = ["replay"]


@kernel
def replay(order, enter, group_of, pair_of, column, latency, hop, stages, lane0, clock, lane, stage, start, end,
           request):  # type: ignore[no-untyped-def]  # fmt: skip
    """Fill `lane`, `stage`, `start`, `end` and `request` with a row for each visit, in the order of `order`."""
    n = 0
    for j in range(order.shape[0]):
        i = order[j]
        g = group_of[i]
        p = pair_of[i]
        t = enter[i]
        for k in range(stages[g]):
            t = max(t, clock[g, k])
            lane[n], stage[n], start[n], request[n] = lane0[g] + k, k, t, i
            t += latency[p, column[i], k]
            clock[g, k] = t
            end[n] = t
            n += 1
            t += hop[p]
