"""Gamma renewal processes, vectorised: the arrivals of one model, in one window or in thousands at once.

A Gamma process of rate λ and coefficient of variation c has independent gaps from Gamma(shape 1/c², scale
c²/λ); c = 1 is Poisson.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .columns import FloatArray

__all__ = ["renewal", "windowed_renewal"]


def renewal(rng: np.random.Generator, rate: float, cv: float, duration: float) -> FloatArray:
    """Arrivals in ``[0, duration)`` of one Gamma process; the first comes after one full gap.

    Parameters
    ----------
    rng : numpy.random.Generator
        Stream to draw from.
    rate : float
        Arrivals per second, >= 0; 0 gives none.
    cv : float
        Coefficient of variation of the gaps, > 0.
    duration : float
        Seconds, >= 0.

    Returns
    -------
    ndarray of float, shape (n,)
        Ascending times, seconds.
    """
    return windowed_renewal(rng, np.array([rate]), np.array([cv]), np.array([0.0, duration]), equilibrium=False)


def windowed_renewal(
    rng: np.random.Generator, rate: FloatArray, cv: FloatArray, edges: FloatArray, *, equilibrium: bool
) -> FloatArray:
    """Arrivals of one Gamma process per window, each started afresh.

    A process that starts with a full gap expects λT + (c² − 1)/2 arrivals in a long window of T seconds, not
    λT: at c = 4, 7.5 too many in every window. With `equilibrium` the first gap is instead the rest of a gap
    that was under way when the window opened, U · Gamma(1/c² + 1, c²/λ) with U uniform; then exactly λT are
    expected (renewal theory: Cox 1962, ch. 4).

    Parameters
    ----------
    rng : numpy.random.Generator
        Stream to draw from.
    rate, cv : ndarray of float, shape (w,)
        Arrivals per second (>= 0) and CV of the gaps (> 0) in each window.
    edges : ndarray of float, shape (w + 1,)
        Ascending boundaries of the windows, seconds.
    equilibrium : bool
        Start each window in equilibrium, or with one full gap.

    Returns
    -------
    ndarray of float, shape (n,)
        Ascending times, seconds.
    """
    window = np.flatnonzero((rate > 0) & (np.diff(edges) > 0))
    clock = edges[window]
    parts: list[FloatArray] = []
    while window.size:
        end = edges[window + 1]
        mean = rate[window] * (end - clock)
        # Four standard deviations more than expected: windows seldom need a second draw. The factor decides only speed
        # and the use of the stream, so it must not change: seeds would give other traces.
        drawn = np.ceil(mean + 4.0 * cv[window] * np.sqrt(mean) + 4.0).astype(np.int64)
        first = np.cumsum(drawn) - drawn
        last = first + drawn - 1
        segment = np.zeros(1, dtype=np.int64) if window.size == 1 else np.repeat(np.arange(window.size), drawn)

        gaps = _unit_gaps(rng, cv[window], segment, int(drawn.sum()))
        if equilibrium and not parts:
            shape = 1.0 / cv[window] ** 2
            gaps[first] = rng.random(window.size) * rng.standard_gamma(shape + 1.0) / shape
        # Summed in units of the mean gap, and only then stretched to seconds: all windows are as exact as one.
        times = np.cumsum(gaps, out=gaps)
        if window.size > 1:
            times -= np.where(first > 0, times[first - 1], 0.0)[segment]
        with np.errstate(over="ignore"):  # at a rate near 0 the next arrival may be at infinity
            times /= rate[window][segment]
        times += clock[segment]
        parts.append(times[times < end[segment]])

        unfinished = times[last] < end
        window, clock = window[unfinished], times[last][unfinished]
    if not parts:
        return np.empty(0)
    return parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))


def _unit_gaps(rng: np.random.Generator, cv: FloatArray, segment: npt.NDArray[np.int64], n: int) -> FloatArray:
    """`n` gaps of mean 1, the k-th with the CV of window ``segment[k]``."""
    if (cv == 1.0).all():
        return rng.standard_exponential(n)
    if (cv == cv[0]).all():
        gaps = rng.standard_gamma(1.0 / cv[0] ** 2, n)
        gaps *= cv[0] ** 2
        return gaps
    shape = 1.0 / cv**2
    return rng.standard_gamma(shape[segment]) / shape[segment]
