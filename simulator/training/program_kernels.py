"""Compiled loops over the actions of a program: orders, transfers put in, messages matched, the sweep without times."""

from __future__ import annotations

import numba
import numpy as np

from .action_columns import RECV_B, RECV_F, SEND_B, SEND_F, B, F, W

__all__ = [
    "COMPUTE",
    "MESSAGE",
    "PAIR",
    "RECEIVE",
    "SEND",
    "alternate",
    "expand",
    "match",
    "places",
    "sweep",
    "there_and_back",
]

COMPUTE, SEND, RECEIVE = range(3)
PAIR, MESSAGE = 34, 2**32 - 1  # a word is pair << PAIR | message << 2 | kind

_JIT = {"cache": True, "nogil": True, "error_model": "numpy", "boundscheck": False}


@numba.njit(**_JIT)
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


@numba.njit(**_JIT)
def _do(rows, at, count, stages, side, op, limit):
    """The next microbatch's `op` on one of a mesh's two stages; those from `limit` on are left out."""
    k = count[op, side]
    count[op, side] += 1
    if k >= limit:
        return at
    rows[at, 0], rows[at, 1], rows[at, 2], rows[at, 3] = op, stages[side], k, 0
    return at + 1


@numba.njit(**_JIT)
def there_and_back(r, p, microbatches):
    """ZB-V's hand-made order for unit times of mesh r of p (Qi et al. 2023, §6); rows as in `alternate`."""
    m = max(2 * p - 1, microbatches)
    stages = (r, 2 * p - 1 - r)  # on the way down, and up
    rows = np.empty((6 * microbatches, 4), dtype=np.int32)
    count = np.zeros((9, 2), dtype=np.int64)
    at = 0
    for _ in range(2 * (p - r) - 1):
        at = _do(rows, at, count, stages, 0, F, microbatches)
    for _ in range(r):
        for side in (1, 0):
            at = _do(rows, at, count, stages, side, F, microbatches)
    for _ in range(p - r):
        for op in (F, B, W):
            at = _do(rows, at, count, stages, 1, op, microbatches)
    while count[F, 1] < count[F, 0] or count[F, 0] < m:
        for side in (0, 1):
            for op in (F, B, W):
                if op != F or side == 1 or count[F, 0] < m:
                    at = _do(rows, at, count, stages, side, op, microbatches)
    for _ in range(r):
        for side in (0, 1):
            at = _do(rows, at, count, stages, side, B, microbatches)
    for _ in range(p - r):
        for op in (B, W):
            at = _do(rows, at, count, stages, 0, op, microbatches)
    for side in (1, 0):
        while count[W, side] < count[B, side]:
            at = _do(rows, at, count, stages, side, W, microbatches)
    return rows


@numba.njit(**_JIT)
def expand(order, bounds, receives, sends, ends, end_bounds):
    """Columns (op, stage, microbatch, peer, slice), shape (5, n), and where each mesh's begin.

    Each F and B of `order` with its receives before and its sends after it, then the mesh's `ends`. `receives` and
    `sends` are for F and for B, per stage: how many peers, and which.
    """
    n = len(bounds) - 1
    offsets = np.zeros(n + 1, dtype=np.int64)
    for mesh in range(n):
        size = end_bounds[mesh + 1] - end_bounds[mesh]
        for k in range(bounds[mesh], bounds[mesh + 1]):
            size += 1
            if order[k, 0] != W:
                way = 0 if order[k, 0] == F else 1
                size += receives[way, order[k, 1], 0] + sends[way, order[k, 1], 0]
        offsets[mesh + 1] = offsets[mesh] + size
    out = np.full((5, offsets[n]), -1, dtype=np.int32)
    for mesh in range(n):
        at = offsets[mesh]
        for k in range(bounds[mesh], bounds[mesh + 1]):
            op, stage = order[k, 0], order[k, 1]
            way = 0 if op == F else 1
            before = receives[way, stage, 0] if op != W else 0
            after = sends[way, stage, 0] if op != W else 0
            for j in range(-before, after + 1):
                code, peer = op, -1
                if j < 0:
                    code, peer = (RECV_F if way == 0 else RECV_B), receives[way, stage, 1 + before + j]
                elif j > 0:
                    code, peer = (SEND_F if way == 0 else SEND_B), sends[way, stage, j]
                out[0, at], out[1, at], out[2, at] = code, stage, order[k, 2]
                out[3, at], out[4, at] = peer, order[k, 3]
                at += 1
        for k in range(end_bounds[mesh], end_bounds[mesh + 1]):
            out[0, at], out[1, at], out[3, at], out[4, at] = ends[k, 0], ends[k, 1], ends[k, 2], 0
            at += 1
    return out, offsets


@numba.njit(**_JIT)
def match(op, stage, microbatch, peer, piece, n_stages, number, units, slices, n_messages):
    """Words of all actions; and for each message the rows that send and receive it (−1 none, −2 − row the second)."""
    word = np.zeros(len(op), dtype=np.int64)
    sender = np.full(n_messages, -1, dtype=np.int64)
    receiver = np.full(n_messages, -1, dtype=np.int64)
    for row in range(len(op)):
        code = op[row]
        sends = code in (SEND_F, SEND_B)
        if not sends and code != RECV_F and code != RECV_B:
            continue
        source, target = (stage[row], peer[row]) if sends else (peer[row], stage[row])
        what = 0
        if code in (SEND_B, RECV_B):
            what = 2 if microbatch[row] < 0 else 1
        pair = number[(what * n_stages + source) * n_stages + target]
        message = pair * units + (microbatch[row] + 1) * slices + piece[row]
        word[row] = np.int64(pair) << PAIR | np.int64(message) << 2 | (SEND if sends else RECEIVE)
        rows = sender if sends else receiver
        rows[message] = row if rows[message] == -1 else -2 - row
    return word, sender, receiver


@numba.njit(**_JIT)
def places(op, stage, microbatch, piece, n_units, slices, n_stages):
    """For F, B and W the row of each (stage, unit), −1 for none, shape (3, n_stages, n_units); and a wrong row."""
    place = np.full((3, n_stages, n_units), -1, dtype=np.int64)
    wrong = -1
    for row in range(len(op)):
        which = 0 if op[row] == F else (1 if op[row] == B else (2 if op[row] == W else -1))
        if which < 0:
            continue
        unit = microbatch[row] * slices + piece[row]
        if unit < 0 or place[which, stage[row], unit] >= 0:
            wrong = row
            break
        place[which, stage[row], unit] = row
    return place, wrong


@numba.njit(**_JIT)
def sweep(word, offsets, n_messages):
    """Where each mesh stands when nothing can go on any more."""
    n = len(offsets) - 1
    at = offsets[:-1].copy()
    sent = np.zeros(n_messages, dtype=np.bool_)
    waiting = np.full(n_messages, -1, dtype=np.int32)
    stack = np.empty(n, dtype=np.int32)  # a mesh stands in it once: it waits for one message at a time
    top = n
    for mesh in range(n):
        stack[mesh] = n - 1 - mesh
    while top > 0:
        top -= 1
        mesh = stack[top]
        while at[mesh] < offsets[mesh + 1]:
            kind, what = word[at[mesh]] & 3, (word[at[mesh]] >> 2) & MESSAGE
            if kind == RECEIVE and not sent[what]:
                waiting[what] = mesh
                break
            if kind == SEND:
                sent[what] = True
                if waiting[what] >= 0:
                    stack[top] = waiting[what]
                    top += 1
            at[mesh] += 1
    return at
