"""The knapsack: what apps can gain at most from so many GPUs, wherever these are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....jit import inner

__all__ = ["MINUS", "Goods", "bounds", "cheapest"]

MINUS = -1e18


class Goods(NamedTuple):
    """Rows of all bids and what they are for. Rows of app a: start[a] … start[a + 1] − 1, best first."""

    start: np.ndarray
    gpus: np.ndarray
    place: np.ndarray
    group: np.ndarray
    region: np.ndarray  # position of a machine, or rack; −1: any
    value: np.ndarray  # log 1/ρ
    free: np.ndarray  # free GPUs of each machine; machines stand rack by rack
    rack: np.ndarray  # of each machine
    rack_free: np.ndarray


@inner
def bounds(order, goods, worth, alive, capacity):  # type: ignore[no-untyped-def]
    """Most that apps ``order[k:]`` can gain from c GPUs wherever they are, shape (n + 1, capacity + 1)."""
    n = order.shape[0]
    table, best = np.empty((n + 1, capacity + 1)), np.empty(capacity + 1)
    for c in range(capacity + 1):
        table[n, c] = 0.0
    for k in range(n - 1, -1, -1):
        a = order[k]
        for c in range(capacity + 1):
            table[k, c] = best[c] = MINUS
        last = 0
        for o in range(goods.start[a], goods.start[a + 1]):
            g = goods.gpus[o]
            if alive[o] and g <= capacity and worth[o] > best[g]:
                best[g] = worth[o]
                last = max(last, g)
        most = MINUS
        for g in range(last + 1):  # more GPUs only matter if they are worth more
            w = best[g]
            if w > most:
                most = w
                for c in range(g, capacity + 1):
                    v = w + table[k + 1, c - g]
                    if v > table[k, c]:
                        table[k, c] = v
    return table


@inner
def cheapest(order, goods, worth, alive, table, left, chosen):  # type: ignore[no-untyped-def]
    """Fill `chosen` with rows that attain ``table[0, left]``."""
    for k in range(order.shape[0]):
        a = order[k]
        best = MINUS
        for o in range(goods.start[a], goods.start[a + 1]):
            if alive[o] and goods.gpus[o] <= left:
                v = worth[o] + table[k + 1, left - goods.gpus[o]]
                if v > best:
                    best = v
                    chosen[k] = o
        left -= goods.gpus[chosen[k]]
