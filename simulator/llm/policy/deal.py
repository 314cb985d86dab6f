"""Dealing: fixed shares of a model's requests for deployments that are not alike, as weighted round robin does."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ..workload.requests import LLMTrace

__all__ = ["dealt", "edges", "places"]

GOLDEN = (5**0.5 - 1) / 2
"""Its multiples, modulo 1, fill an interval as evenly as one sequence can (three-distance theorem): of any stretch of
requests each deployment gets its share, give or take one or two."""


def places(trace: LLMTrace) -> npt.NDArray[np.float64]:
    """Where in [0, 1) each request falls, by order of arrival; the turns of a conversation all fall together."""
    if trace.after is None:
        order = np.arange(len(trace))
    else:
        order = np.empty(len(trace), dtype=np.int64)
        begun = 0
        for row, before in enumerate(trace.after.tolist()):
            order[row] = order[before] if before >= 0 else begun
            begun += before < 0
    return np.mod((order + 0.5) * GOLDEN, 1.0)


def edges(shares: Sequence[float]) -> npt.NDArray[np.float64]:
    """Where the interval of each share begins and ends, shape (shares + 1,); the last ends at 1."""
    # Rounded: the sum of three shares is that of its decimal digits, whoever adds them up.
    return np.concatenate(([0.0], np.round(np.cumsum(shares)[:-1], 12), [1.0]))


def dealt(trace: LLMTrace, shares: Sequence[float]) -> list[npt.NDArray[np.int64]]:
    """Rows of the requests that each of several deployments gets, by its share; ascending."""
    ends, at = edges(shares), places(trace)
    return [np.flatnonzero((at >= low) & (at < high)) for low, high in pairwise(ends.tolist())]
