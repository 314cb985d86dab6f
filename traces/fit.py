"""Fitting a trace: a Gamma process per window and model, by moments; scaling and resampling it.

AlpaServe §6.2: "slice the original traces into time windows, and fit the arrivals in each time window with a Gamma
Process parameterized by rate and coefficient of variance (CV). By scaling the rate and CV and resampling from the
processes, we can control the rate and burstiness". Windows of 60 s for MAF1, 5,400 s for MAF2.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import InputError
from .columns import FloatArray, LongArray
from .trace import Trace
from .windows import EMPTY, MODEL, POISSON, WINDOW, ByteArray, GammaWindows

__all__ = ["fit_gamma"]

MAX_CELLS = 50_000_000
"""Most windows × models that are fitted: 400 MB for each array. Beyond it the window is probably a slip."""
MIN_CV = 0.01
"""Floor of a fitted CV: perfectly even arrivals have 0, which no Gamma process has."""


def fit_gamma(
    trace: Trace,
    window: float = 60.0,
    *,
    duration: float | None = None,
    min_gaps: int = 10,
    slo: Any = None,
) -> GammaWindows:
    """Rate and CV of each model in each window, by moments.

    The rate is arrivals / window length; the CV is the standard deviation (n − 1) of the gaps between arrivals
    inside the window over their mean. What is said of windows with few arrivals (`GammaWindows.source` tells which
    rule each window fell under, `GammaWindows.note` sums it up):

    - no arrival: rate 0, nothing is resampled;
    - fewer than `min_gaps` gaps: the model's pooled CV. Adjacent windows are joined until each holds more than
      `min_gaps` arrivals, time is stretched so that the joined windows have rate 1, and the CV is that of all gaps
      on the stretched clock: the change of the rate from window to window does not count as burstiness;
    - fewer than `min_gaps` gaps in the model's whole trace: CV 1, Poisson.

    Parameters
    ----------
    trace : Trace
        The trace to fit.
    window : float
        Length of a window, seconds; they start at time 0.
    duration : float, optional
        Length of the trace, seconds; from 0 to the last arrival if not given. The last window ends there, and may
        be shorter than the others.
    min_gaps : int
        Gaps that a window needs for a CV of its own, >= 2. In a window of n gaps no CV above √n can be seen.
    slo : float, sequence or mapping, optional
        SLO of each model in resampled traces, seconds; the models' own if not given.

    Returns
    -------
    GammaWindows

    Raises
    ------
    InputError
        On a window, duration or `min_gaps` out of range, more than 50 million windows × models, or a model whose
        requests have several SLOs while `slo` is not given.
    """
    if not (math.isfinite(window) and window > 0):
        raise InputError(f"fit_gamma: window must be positive and finite seconds (got {window})")
    if min_gaps < 2:
        raise InputError(f"fit_gamma: min_gaps must be >= 2 (got {min_gaps})")
    end = trace.duration if duration is None else float(duration)
    if not (math.isfinite(end) and end > 0 and end >= trace.duration):
        raise InputError(
            f"fit_gamma: duration must be positive and reach the last arrival at {trace.duration} s (got {end})"
        )
    n, m = math.ceil(end / window), len(trace.models)
    if n * m > MAX_CELLS:
        raise InputError(f"fit_gamma: {n} windows × {m} models are too many; take windows longer than {window:g} s")
    edges = np.minimum(np.arange(n + 1) * window, end)

    count = np.zeros((n, m), dtype=np.int64)
    cv = np.ones((n, m))
    source = np.full((n, m), EMPTY, dtype=np.int8)
    for k, times in enumerate(trace.arrivals_by_model()):
        index = np.minimum((times / window).astype(np.int64), n - 1)
        count[:, k] = np.bincount(index, minlength=n)
        cv[:, k], source[:, k] = _window_cvs(times, index, edges, count[:, k], min_gaps)
    return GammaWindows(
        models=trace.models,
        edges=edges,
        count=count,
        rate=count / np.diff(edges)[:, None],
        cv=cv,
        source=source,
        slo=_model_slos(trace, slo),
    )


def _window_cvs(
    times: FloatArray, index: LongArray, edges: FloatArray, count: LongArray, min_gaps: int
) -> tuple[FloatArray, ByteArray]:
    """CV of one model in each window, and the rule that gave it; `index` is the window of each arrival."""
    n = len(count)
    inside = index[1:] == index[:-1]
    gaps, cell = np.diff(times)[inside], index[1:][inside]
    gap_count = np.bincount(cell, minlength=n)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(cell, weights=gaps, minlength=n) / gap_count
        square = np.bincount(cell, weights=(gaps - mean[cell]) ** 2, minlength=n)
        own = np.sqrt(square / (gap_count - 1)) / mean
    enough = (gap_count >= min_gaps) & np.isfinite(own)
    few = (count > 0) & ~enough
    pooled = _pooled_cv(times, edges, count, min_gaps) if few.any() else None
    source = np.full(n, EMPTY, dtype=np.int8)
    source[enough] = WINDOW
    source[few] = POISSON if pooled is None else MODEL
    cv = np.where(enough, np.nan_to_num(own, nan=1.0), 1.0 if pooled is None else pooled)
    return np.maximum(cv, MIN_CV), source


def _pooled_cv(times: FloatArray, edges: FloatArray, count: LongArray, min_gaps: int) -> float | None:
    """CV of all gaps of a model on a clock that takes out the change of its rate; None if there are too few."""
    if len(times) <= min_gaps:
        return None
    knots, ticks, held = [float(edges[0])], [0], 0
    for stop, arrivals in zip(edges[1:].tolist(), count.tolist(), strict=True):
        held += arrivals
        if held > min_gaps:
            knots.append(stop)
            ticks.append(ticks[-1] + held)
            held = 0
    knots[-1], ticks[-1] = float(edges[-1]), ticks[-1] + held  # what is left joins the last one
    gaps = np.diff(np.interp(times, knots, ticks))
    mean = float(gaps.mean())
    return float(gaps.std(ddof=1)) / mean if mean > 0 else None


def _model_slos(trace: Trace, slo: Any) -> FloatArray:
    """SLO of each model, seconds, shape ``(m,)``; inf for a model without requests."""
    every = np.arange(len(trace.models), dtype=np.int32)
    if slo is not None:
        return Trace(np.zeros(len(every)), every, trace.models, slo).slo
    low = np.full(len(every), np.inf)
    high = np.zeros(len(every))
    np.minimum.at(low, trace.model, trace.slo)
    np.maximum.at(high, trace.model, trace.slo)
    for k in np.flatnonzero(high > low):
        raise InputError(
            f"fit_gamma: requests of {trace.models[k]!r} have SLOs from {low[k]:g} to {high[k]:g} s; "
            "say which one resampled requests get: fit_gamma(…, slo=…)"
        )
    return low
