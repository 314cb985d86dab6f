"""Runs of tokens where a step may give a request several: from what each step gave."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....jit import kernel
from ..rules import LOOP

__all__ = ["runs_of"]


def runs_of(emitted: Any, n: int) -> Any:
    """Runs of iterations in each of which a request got one token, by request: rows of request, first, last.

    Parameters
    ----------
    emitted : ndarray of int64, shape (3, m)
        In order of time: request, iteration, tokens. All tokens but the first begin a run of their own.
    n : int
        Requests.
    """
    begin, last = np.zeros(n + 1, dtype=np.int64), np.full(n, -2, dtype=np.int64)
    _count(emitted, begin, last)
    begin = np.cumsum(begin)
    found = np.empty((3, int(begin[-1])), dtype=np.int64)
    last[:] = -2
    _fill(emitted, begin, last, found)
    return found


@kernel(**LOOP)
def _count(emitted: Any, begin: Any, last: Any) -> None:
    """How many runs each request has, behind its place."""
    for i in range(emitted.shape[1]):
        r, at, tokens = emitted[0, i], emitted[1, i], emitted[2, i]
        begin[r + 1] += tokens - (1 if last[r] + 1 == at else 0)
        last[r] = at


@kernel(**LOOP)
def _fill(emitted: Any, begin: Any, last: Any, found: Any) -> None:
    """The runs; `begin` moves to the end of each request's."""
    for i in range(emitted.shape[1]):
        r, at, tokens = emitted[0, i], emitted[1, i], emitted[2, i]
        more, k = tokens, begin[r]
        if last[r] + 1 == at:
            found[2, k - 1] = at
            more -= 1
        for _ in range(more):
            found[0, k], found[1, k], found[2, k] = r, at, at
            k += 1
        begin[r], last[r] = k, at
