"""What engines did, compactly: one row per iteration, and for each request the runs of iterations that gave it tokens.

Gaps between tokens follow from both without a list of tokens: within a run they are the distances of the iterations'
ends, shared by all requests that run through them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Iterations", "TokenRuns", "weighted_percentile"]

Column = npt.NDArray[np.float64]
IntColumn = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Iterations:
    """Iterations of all engines, one engine after the other, each in order of time; columns of shape (m,).

    Counts are int64, or int32 where an engine wrote them so because they are small; NumPy sums both in 64 bits.

    Parameters
    ----------
    engine : ndarray of int
        Whose iteration.
    start, end : ndarray of float64
        Decision and end, seconds.
    running, waiting : ndarray of int
        Requests that hold device memory, and that wait for it, right after the decision.
    prefill, decodes : ndarray of int
        Prompt tokens that were processed, and sequences that decoded one token.
    preempted, swap_out, swap_in : ndarray of int
        Requests that lost their memory; blocks moved to the host and back.
    used_tokens, wasted_tokens : ndarray of int
        Token slots held, and those of them without a token.
    capacity_tokens : int
        Token slots of one engine.
    engines : int
        Number of engines.
    shared_tokens : ndarray of int64, optional
        Token slots that sharing blocks saves: what the sequences that run would hold if each had blocks of its own,
        less what is held for them. None: nothing can be shared.
    """

    engine: IntColumn
    start: Column
    end: Column
    running: IntColumn
    waiting: IntColumn
    prefill: IntColumn
    decodes: IntColumn
    preempted: IntColumn
    swap_out: IntColumn
    swap_in: IntColumn
    used_tokens: IntColumn
    wasted_tokens: IntColumn
    capacity_tokens: int
    engines: int
    shared_tokens: IntColumn | None = None

    def __len__(self) -> int:
        return len(self.end)

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """The columns by name."""
        names = [f.name for f in fields(self) if f.name not in ("capacity_tokens", "engines")]
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def integral(self, values: npt.ArrayLike, times: Column) -> Column:
        """Integral from 0 to each of `times` of what has `values` in each iteration and 0 between them, all engines."""
        given, total = np.asarray(values, dtype=np.float64), np.zeros(len(times))
        for low, high in self._parts:
            knots = np.column_stack((self.start[low:high], self.end[low:high])).ravel()
            area = given[low:high] * (self.end[low:high] - self.start[low:high])
            done = np.cumsum(area)
            total += np.interp(times, knots, np.column_stack((done - area, done)).ravel())
        return total

    @cached_property
    def _parts(self) -> list[tuple[int, int]]:
        """First and last + 1 iteration of each engine that had any."""
        edges = np.searchsorted(self.engine, np.arange(self.engines + 1))
        return [(a, b) for a, b in pairwise(edges.tolist()) if b > a]


@dataclass(frozen=True, eq=False)
class TokenRuns:
    """Runs of consecutive iterations in each of which a request got one token (each of its sequences one).

    Parameters
    ----------
    request : ndarray of int64, shape (r,)
        Whose run, ascending; a request's runs in order of time.
    first, last : ndarray of int64, shape (r,)
        First and last iteration of the run, as rows of `Iterations`.
    """

    request: IntColumn
    first: IntColumn
    last: IntColumn

    @classmethod
    def of_tokens(cls, request: IntColumn, iteration: IntColumn) -> TokenRuns:
        """Runs from single tokens, given in order of iteration."""
        if not len(request):
            return cls(request, iteration, iteration)
        order = np.argsort(request, kind="stable")
        who, when = request[order], iteration[order]
        begins = np.flatnonzero(np.concatenate(([True], (np.diff(who) != 0) | (np.diff(when) != 1))))
        ends = np.concatenate((begins[1:], [len(who)])) - 1
        return cls(who[begins], when[begins], when[ends])

    def of(self, request: int) -> TokenRuns:
        """One request's runs."""
        low, high = np.searchsorted(self.request, [request, request + 1])
        return TokenRuns(self.request[low:high], self.first[low:high], self.last[low:high])

    def tokens(self) -> IntColumn:
        """The iteration of every token, request by request."""
        length = self.last - self.first + 1
        begin = np.cumsum(length) - length
        return np.repeat(self.first - begin, length) + np.arange(int(length.sum()))

    def gaps(self, end: Column, counted: npt.NDArray[np.bool_]) -> tuple[Column, IntColumn]:
        """Times between tokens of the counted requests and how often each occurs.

        Parameters
        ----------
        end : ndarray of float64, shape (m,)
            End of each iteration, seconds.
        counted : ndarray of bool, shape (n,)
            Which requests.
        """
        mine = counted[self.request] if len(self.request) else np.zeros(0, dtype=bool)
        who, first, last = self.request[mine], self.first[mine], self.last[mine]
        # A run from a to b has the gaps of iterations a + 1 … b: one more from a + 1 on, one less from b + 1 on.
        steps = np.bincount(first + 1, minlength=len(end) + 2) - np.bincount(last + 1, minlength=len(end) + 2)
        often = np.cumsum(steps)[1 : len(end)]
        again = np.flatnonzero(np.diff(who) == 0)
        within = np.diff(end)
        some = often > 0
        values = np.concatenate((within[some], end[first[again + 1]] - end[last[again]]))
        return values, np.concatenate((often[some], np.ones(len(again), dtype=np.int64)))


def weighted_percentile(values: Column, weights: IntColumn, percentile: float) -> float:
    """A percentile of `values` where each counts `weights` times, as `numpy.percentile` of them all; NaN of none."""
    if not len(values):
        return float("nan")
    order = np.argsort(values, kind="stable")
    ranked, upto = values[order], np.cumsum(weights[order])
    place = percentile / 100 * (int(upto[-1]) - 1)
    low = int(np.floor(place))
    a, b = (float(ranked[np.searchsorted(upto, min(k, int(upto[-1]) - 1), side="right")]) for k in (low, low + 1))
    return a + (b - a) * (place - low)
