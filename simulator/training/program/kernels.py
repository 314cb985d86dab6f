"""Loops over the actions of a program: transfers put in, messages matched, the sweep without times."""

from __future__ import annotations

import numpy as np

from ....jit import kernel
from .columns import RECV_B, RECV_F, SEND_B, SEND_F, B, F, W

__all__ = [
    "COMPUTE",
    "ELSEWHERE",
    "MESSAGE",
    "NO_MICROBATCH",
    "NO_PEER",
    "PAIR",
    "PLAIN",
    "RECEIVE",
    "SEND",
    "exchanged",
    "expand",
    "first_wrong",
    "match",
    "places",
    "sweep",
]

COMPUTE, SEND, RECEIVE = range(3)
ELSEWHERE, NO_PEER, NO_MICROBATCH = 1, 2, 3  # what `first_wrong` finds
PLAIN = 50_000  # elements of columns: some 10,000 actions, 50 ms in Python
PAIR, MESSAGE = 34, 2**32 - 1  # a word is pair << PAIR | message << 2 | kind


@kernel(plain=PLAIN)
def first_wrong(op, stage, microbatch, peer, piece, offsets, mesh_of, counts):
    """The first row that cannot be, and why: another mesh's stage, no peer, no such microbatch; (−1, 0) for none."""
    for mesh in range(len(offsets) - 1):
        for row in range(offsets[mesh], offsets[mesh + 1]):
            mine, other, code = stage[row], peer[row], op[row]
            if mine < 0 or mine >= len(mesh_of) or mesh_of[mine] != mesh:
                return row, ELSEWHERE
            receives = code in (RECV_F, RECV_B)
            if receives or code in (SEND_F, SEND_B):
                if other < 0 or other >= len(mesh_of) or other == mine:
                    return row, NO_PEER
            elif other != -1:
                return row, NO_PEER
            if microbatch[row] < -1 or microbatch[row] >= counts[other if receives else mine] or piece[row] < 0:
                return row, NO_MICROBATCH
    return -1, 0


@kernel(plain=PLAIN)
def expand(order, bounds, receives, sends, ends, end_bounds, counts):
    """Columns (op, stage, microbatch, peer, slice), shape (5, n), and where each mesh's begin.

    Each F and B of `order` with its receives before and its sends after it, then the mesh's `ends`. `receives` and
    `sends` are for F and for B, per stage: how many peers, and which; `counts` are the microbatches of each stage. A
    message is of its sender's microbatch: before one of mine come all of a peer's that make it up, or that one of
    which it is the first part.
    """
    n = len(bounds) - 1
    upper = len(ends)
    for k in range(len(order)):
        upper += 1
        if order[k, 0] != W:
            way, stage = (0 if order[k, 0] == F else 1), order[k, 1]
            upper += sends[way, stage, 0]
            for j in range(receives[way, stage, 0]):
                upper += max(1, counts[receives[way, stage, 1 + j]] // counts[stage])
    out = np.empty((5, upper), dtype=np.int32)
    most = np.int64(0)
    for stage in range(len(counts)):  # numba compiles a loop in a tenth of the time that `max()` takes
        most = max(most, np.int64(counts[stage]))
    here = np.zeros((2, len(counts), receives.shape[2], most), dtype=np.bool_)  # received: [way, stage, j, k]
    offsets = np.zeros(n + 1, dtype=np.int64)
    at = 0
    for mesh in range(n):
        for k in range(bounds[mesh], bounds[mesh + 1]):
            op, stage, unit, piece = order[k, 0], order[k, 1], order[k, 2], order[k, 3]
            way = 0 if op == F else 1
            for j in range(receives[way, stage, 0] if op != W else 0):
                peer = receives[way, stage, 1 + j]
                many, few = counts[peer] // counts[stage], counts[stage] // counts[peer]
                first = unit * many if few <= 1 else unit // few
                if few > 1 and here[way, stage, j, first]:
                    continue
                here[way, stage, j, first] = True
                for other in range(first, first + max(many, 1)):
                    out[0, at], out[1, at], out[2, at] = (RECV_F if way == 0 else RECV_B), stage, other
                    out[3, at], out[4, at] = peer, piece
                    at += 1
            out[0, at], out[1, at], out[2, at], out[3, at], out[4, at] = op, stage, unit, -1, piece
            at += 1
            for j in range(sends[way, stage, 0] if op != W else 0):
                out[0, at], out[1, at], out[2, at] = (SEND_F if way == 0 else SEND_B), stage, unit
                out[3, at], out[4, at] = sends[way, stage, 1 + j], piece
                at += 1
        for k in range(end_bounds[mesh], end_bounds[mesh + 1]):
            out[0, at], out[1, at], out[2, at], out[3, at], out[4, at] = ends[k, 0], ends[k, 1], -1, ends[k, 2], 0
            at += 1
        offsets[mesh + 1] = at
    return out[:, :at], offsets


@kernel(plain=PLAIN)
def exchanged(op, stage, microbatch, peer, n_stages):
    """What goes between which stages: [what, source, target] flat; what is 0 forward, 1 backward, 2 once."""
    present = np.zeros(3 * n_stages * n_stages, dtype=np.bool_)
    for row in range(len(op)):
        code = op[row]
        sends = code in (SEND_F, SEND_B)
        if sends or code in (RECV_F, RECV_B):
            source, target = (stage[row], peer[row]) if sends else (peer[row], stage[row])
            what = 0 if code in (SEND_F, RECV_F) else 2 if microbatch[row] < 0 else 1
            present[(what * n_stages + source) * n_stages + target] = True
    return present


@kernel(plain=PLAIN)
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


@kernel(plain=PLAIN)
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


@kernel(plain=PLAIN)
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
