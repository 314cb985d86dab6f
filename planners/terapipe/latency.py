r"""`SliceLatency`: seconds of a slice by its length and context (Eq. 2.9), fitted from measurements.

.. math:: t(b, i, j) = t(b, i, 0) + t_{ctx}, \quad t_{ctx} = a_0 + a_1 b i + a_2 b j + a_3 b i j

for i tokens of each of b sequences, which follow j tokens each. The first term is measured without context, for many
lengths. The second is fitted to a few pairs (i, j) by least squares, and is 0 without context. For one sequence this is
the paper's formula; b enters as in its authors' code.
"""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...reprs import Shown

__all__ = ["SliceLatency", "fit_latency"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class SliceLatency(Shown):
    """Seconds of slices in one direction, forward or backward, for one part of the model.

    Parameters
    ----------
    lengths : ndarray of int64, shape (m,)
        Numbers of tokens for which the time without context is known, ascending.
    base_s : mapping of int to ndarray of float64, shape (m,)
        Number of samples -> seconds without context at these lengths.
    context : tuple of float
        The coefficients (a0, a1, a2, a3), in seconds.
    overhead_error : float
        Mean absolute error of t_ctx on the pairs that were held out, divided by the mean measured overhead there; NaN
        if none were held out.
    error : float
        Mean relative error of t on the same pairs.
    held_out : int
        Number of pairs that were held out.
    """

    lengths: npt.NDArray[np.int64]
    base_s: Mapping[int, Floats]
    context: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    overhead_error: float = float("nan")
    error: float = float("nan")
    held_out: int = field(default=0)

    @property
    def samples(self) -> tuple[int, ...]:
        """Numbers of samples for which times are known."""
        return tuple(sorted(self.base_s))

    def seconds(self, length: npt.ArrayLike, context: npt.ArrayLike = 0, samples: int = 1) -> Floats:
        """Seconds of slices.

        Between measured lengths it interpolates linearly. Above the longest one it scales that one's time with length.

        Parameters
        ----------
        length, context : array_like of int
            Numbers of tokens; broadcast together.
        samples : int
            One of `self.samples`.

        Raises
        ------
        InputError
            If nothing was measured for so many samples, or a length is shorter than the shortest measured one.
        """
        if samples not in self.base_s:
            known = ", ".join(map(str, self.samples))
            raise InputError(f"slice latency: nothing was measured for {samples} samples; for {known} there was")
        i, j = np.broadcast_arrays(np.asarray(length, np.float64), np.asarray(context, np.float64))
        if i.size and i.min() < self.lengths[0]:
            raise InputError(
                f"slice latency: the shortest measured slice has {self.lengths[0]} tokens (got {i.min():g}); measure "
                "shorter ones, or use a coarser granularity"
            )
        base = np.interp(i, self.lengths, self.base_s[samples])
        longest = float(self.lengths[-1])
        base = np.where(i > longest, base * i / longest, base)
        return np.maximum(base + _overhead(self.context, i, j, samples), 0.0)

    def table(self, tokens: int, unit: int, samples: Sequence[int]) -> Floats:
        """The grid that `slice_tokens` takes.

        Parameters
        ----------
        tokens : int
            L, tokens of a sequence.
        unit : int
            Tokens of a unit; divides L.
        samples : sequence of int
            Numbers of samples. For numbers between them the grid holds inf: there are no such slices.

        Returns
        -------
        ndarray of float64, shape (max(samples), L / unit, L / unit)
            Seconds, [samples − 1, context, length − 1]; 0 where context and length exceed the sequence.
        """
        n = units(tokens, unit)
        start = np.arange(n)[:, None] * unit
        length = np.arange(1, n + 1)[None, :] * unit
        found = np.full((max(samples), n, n), np.inf)
        for b in samples:
            found[b - 1] = np.where(start + length <= tokens, self.seconds(length, start, b), 0.0)
        return found


def units(tokens: int, unit: int) -> int:
    """Number of units in a sequence.

    Raises
    ------
    InputError
        If the unit does not divide the sequence.
    """
    whole = isinstance(unit, int) and not isinstance(unit, bool) and unit > 0
    if not whole or tokens % unit:
        near = [d for d in range(1, tokens + 1) if tokens % d == 0]
        # Of two divisors as near the smaller: finer slices lose less.
        close = min(near, key=lambda d: abs(d - unit)) if whole else 1
        raise InputError(f"granularity: {unit!r} does not divide the sequence of {tokens} tokens; use {close}")
    return tokens // unit


def fit_latency(
    lengths: npt.ArrayLike, contexts: npt.ArrayLike, seconds: npt.ArrayLike, samples: npt.ArrayLike = 1
) -> SliceLatency:
    """Fit Eq. 2.9 to measurements of one direction.

    Measurements without context are t(b, i, 0) and are kept as they are. The others are fitted; if there are ten or
    more, every fifth of them is held out to test the fit.

    Parameters
    ----------
    lengths, contexts : array_like of int, shape (m,)
        Tokens of each measured slice, and tokens before it.
    seconds : array_like of float, shape (m,)
        Measured seconds; equal slices are averaged.
    samples : array_like of int, shape (m,) or ()
        Number of sequences that went together.

    Raises
    ------
    InputError
        If the shapes of the arrays do not match, there is no slice without context, or there are one to three with.
    """
    i, j, b, t = _measured(lengths, contexts, samples, seconds)
    bare = j == 0
    counts = np.unique(b[bare])
    if not counts.size:
        raise InputError("fit_latency: contexts: expected slices without context too (got none with context 0)")
    grid = np.unique(i[bare]).astype(np.int64)
    base: dict[int, Floats] = {}
    for count in counts.tolist():
        mine = bare & (b == count)
        have = np.unique(i[mine])
        means = np.array([t[mine & (i == length)].mean() for length in have])
        if have[0] != grid[0] or have[-1] != grid[-1]:
            raise InputError(
                f"fit_latency: lengths: expected slices of {grid[0]} and {grid[-1]} tokens without context for "
                f"{count:g} samples too, as for others"
            )
        base[int(count)] = np.interp(grid, have, means)
    known = SliceLatency(grid, base)
    at = np.flatnonzero(~bare)
    if not at.size:
        return known
    if at.size < 4:
        raise InputError(f"fit_latency: contexts: expected none, or four slices or more with context (got {at.size})")
    before = np.concatenate([known.seconds(i[k], 0, int(b[k]))[None] for k in at])
    overhead = t[at] - before
    # The pairs that test the fit lie all over the range, whatever the order of measuring.
    order = np.lexsort((b[at], j[at], i[at]))
    tested = np.zeros(at.size, dtype=bool)
    if at.size >= 10:
        tested[order[2::5]] = True
    rows = _rows(i[at], j[at], b[at])
    # Columns from 1 to b·i·j (millions) are scaled to one size, so that least squares does not drop small ones.
    scale = np.abs(rows).max(axis=0)
    least_squares: Any = np.linalg.lstsq  # its types say nothing of the first of its results
    solved = np.asarray(least_squares(rows[~tested] / scale, overhead[~tested], rcond=None)[0], np.float64) / scale
    a = (float(solved[0]), float(solved[1]), float(solved[2]), float(solved[3]))
    if not tested.any():
        return SliceLatency(grid, base, a)
    wrong = np.abs(rows[tested] @ solved - overhead[tested])
    size = float(np.abs(overhead[tested]).mean())
    return SliceLatency(
        grid,
        base,
        a,
        overhead_error=float(wrong.mean()) / size if size else 0.0,
        error=float((wrong / t[at][tested]).mean()),
        held_out=int(tested.sum()),
    )


def _overhead(a: tuple[float, float, float, float], i: Floats, j: Floats, b: float) -> Floats:
    return np.where(j > 0, a[0] + a[1] * b * i + a[2] * b * j + a[3] * b * i * j, 0.0)


def _rows(i: Floats, j: Floats, b: Floats) -> Floats:
    return np.stack([np.ones_like(i), b * i, b * j, b * i * j], axis=1)


def _measured(
    lengths: npt.ArrayLike, contexts: npt.ArrayLike, samples: npt.ArrayLike, seconds: npt.ArrayLike
) -> tuple[Floats, Floats, Floats, Floats]:
    found: list[Floats] = []
    given = {"lengths": lengths, "contexts": contexts, "samples": samples, "seconds": seconds}
    for name, values in given.items():
        try:
            found.append(np.atleast_1d(np.asarray(values, np.float64)))
        except (TypeError, ValueError):
            raise InputError(f"fit_latency: {name}: expected numbers") from None
    size = found[3].shape
    for at, (name, least) in enumerate((("lengths", 1), ("contexts", 0), ("samples", 1))):
        values = np.broadcast_to(found[at], size) if found[at].shape in (size, (1,)) and len(size) == 1 else None
        if values is None:
            raise InputError(f"fit_latency: {name}: expected one for each of {size} seconds (got {found[at].shape})")
        if not np.all((values >= least) & (values == np.floor(values))):
            raise InputError(f"fit_latency: {name}: expected integers >= {least}")
        found[at] = values
    if not np.all(np.isfinite(found[3]) & (found[3] > 0)):
        raise InputError("fit_latency: seconds: expected finite seconds > 0")
    return found[0], found[1], found[2], found[3]
