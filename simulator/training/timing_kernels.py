"""The compiled loop that lays seconds beside the actions of a program."""

from __future__ import annotations

import numpy as np

from ...jit import kernel
from .program.columns import REDUCE, UPDATE, B, F, W
from .program.kernels import PLAIN

__all__ = ["durations"]


@kernel(plain=PLAIN)
def durations(op, stage, microbatch, piece, passes, steps, once):
    """Seconds of each action; 0 for sends and receives.

    `passes` are the seconds of F, B and W one after the other, each by stage, microbatch and slice; `steps`, shape
    (3, 4), say where each begins and how far apart stages, microbatches and slices are (0 where they take the same).
    `once` are those of REDUCE and UPDATE by stage. A backward of which no W is there takes W's seconds too.
    """
    out = np.zeros(len(op))
    n, most, slices, split = len(once[0]), 0, 0, False
    for row in range(len(op)):
        most, slices = max(most, microbatch[row] + 1), max(slices, piece[row] + 1)
        split |= op[row] == W
    apart = np.zeros(n * most * slices if split else 0, dtype=np.bool_)
    if split:
        for row in range(len(op)):
            if op[row] == W:
                apart[(stage[row] * most + microbatch[row]) * slices + piece[row]] = True
    for row in range(len(op)):
        code = op[row]
        if code in (F, B, W):
            which = 0 if code == F else 1 if code == B else 2
            s, m, j = stage[row], microbatch[row], piece[row]
            out[row] = passes[steps[which, 0] + s * steps[which, 1] + m * steps[which, 2] + j * steps[which, 3]]
            if code == B and not (split and apart[(s * most + m) * slices + j]):
                out[row] += passes[steps[2, 0] + s * steps[2, 1] + m * steps[2, 2] + j * steps[2, 3]]
        elif code == REDUCE:
            out[row] = once[0, stage[row]]
        elif code == UPDATE:
            out[row] = once[1, stage[row]]
    return out
