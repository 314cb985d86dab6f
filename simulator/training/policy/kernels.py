"""Compiled loops that lay out in which order a mesh computes."""

from __future__ import annotations

import numpy as np

from ....jit import inner, kernel
from ..program.columns import B, F, W
from ..program.kernels import PLAIN

__all__ = ["alternate", "in_turn", "there_and_back"]


@kernel(plain=PLAIN)
def alternate(forward, backward, warmup, lag):
    """Rows (op, stage, microbatch, slice): step k does forward k, backward k − warmup, and W k − warmup − lag.

    Forward and backward passes are rows (stage, microbatch); a `lag` below 0 says that W is not split off.
    """
    n = len(forward)
    rows = np.zeros(((2 if lag < 0 else 3) * n, 4), dtype=np.int32)
    at = 0
    for step in range(n + warmup + max(lag, 0)):
        for op, passes, k in ((F, forward, step), (B, backward, step - warmup), (W, backward, step - warmup - lag)):
            if 0 <= k < n and (op != W or lag >= 0):
                rows[at, 0] = op
                rows[at, 1] = passes[k, 0]
                rows[at, 2] = passes[k, 1]
                at += 1
    return rows


@kernel(plain=PLAIN)
def in_turn(forward, backward, warmup, k):
    """Rows (op, stage, microbatch, slice): `warmup` forwards, then k backwards and k forwards in turn, then the rest.

    Forward and backward passes are rows (stage, microbatch, slice).
    """
    n = len(forward)
    rows = np.empty((2 * n, 4), dtype=np.int32)
    at = ahead = back = 0
    limit = warmup
    while back < n:
        while ahead < limit:
            rows[at, 0] = F
            rows[at, 1], rows[at, 2], rows[at, 3] = forward[ahead, 0], forward[ahead, 1], forward[ahead, 2]
            ahead += 1
            at += 1
        last = n if ahead == n else back + k
        while back < last:
            rows[at, 0] = B
            rows[at, 1], rows[at, 2], rows[at, 3] = backward[back, 0], backward[back, 1], backward[back, 2]
            back += 1
            at += 1
        limit = min(limit + k, n)
    return rows


@inner
def _do(rows, at, count, stages, side, op, limit):
    """The next microbatch's `op` on one of a mesh's two stages; those from `limit` on are left out."""
    k = count[op, side]
    count[op, side] += 1
    if k >= limit:
        return at
    rows[at, 0], rows[at, 1], rows[at, 2], rows[at, 3] = op, stages[side], k, 0
    return at + 1


@kernel
def there_and_back(r, p, microbatches):
    """ZB-V's hand-made order for unit times of mesh r of p (Qi et al. 2023, §6); rows as in `alternate`."""
    m = max(2 * p - 1, microbatches)  # the order is made for no fewer; passes beyond `microbatches` are left out
    stages = (r, 2 * p - 1 - r)  # on the way down, and up
    rows = np.empty((6 * microbatches, 4), dtype=np.int32)
    count = np.zeros((9, 2), dtype=np.int64)
    # Numba compiles a callee anew for each literal that it is called with: these are none.
    at, down, up, f, b, w = np.int64(0), np.int64(0), np.int64(1), np.int64(F), np.int64(B), np.int64(W)
    for _ in range(2 * (p - r) - 1):
        at = _do(rows, at, count, stages, down, f, microbatches)
    for _ in range(r):
        for side in (1, 0):
            at = _do(rows, at, count, stages, side, f, microbatches)
    for _ in range(p - r):
        for op in (f, b, w):
            at = _do(rows, at, count, stages, up, op, microbatches)
    while count[F, 1] < count[F, 0] or count[F, 0] < m:
        for side in (0, 1):
            for op in (F, B, W):
                if op != F or side == 1 or count[F, 0] < m:
                    at = _do(rows, at, count, stages, side, op, microbatches)
    for _ in range(r):
        for side in (0, 1):
            at = _do(rows, at, count, stages, side, b, microbatches)
    for _ in range(p - r):
        for op in (B, W):
            at = _do(rows, at, count, stages, down, op, microbatches)
    for side in (1, 0):
        while count[W, side] < count[B, side]:
            at = _do(rows, at, count, stages, side, w, microbatches)
    return rows
