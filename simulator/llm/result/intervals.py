"""Intervals for every figure of a simulation of LLM serving: what each one is cut into (see `interval_math`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from .interval_math import Batch, Interval, check_interval, check_percentile, over_seeds, sectioned
from .iterations import TokenRuns, weighted_percentile

if TYPE_CHECKING:
    from .columns import LLMResult

__all__ = ["FIGURES", "interval", "intervals", "replicated"]

Column = npt.NDArray[np.float64]

LATENCIES = ("ttft", "tpot", "e2e", "normalized_latency", "queue")
RATES = ("throughput", "request_throughput", "goodput")
OTHERS = ("itl", "attainment", "mean_batch", "prefix_hit_rate")
FIGURES = (*LATENCIES, *RATES, *OTHERS)
"""What `interval` knows."""


def interval(
    result: LLMResult,
    metric: str,
    percentile: float | None = None,
    *,
    confidence: float = 0.9,
    kind: str = "confidence",
    ttft: float = float("inf"),
    tpot: float = float("inf"),
) -> Interval:
    """An interval for one figure of one simulation.

    Parameters
    ----------
    result : LLMResult
        The simulation; leave warm-up and drain out with its `trim`.
    metric : str
        A latency (``ttft, tpot, e2e, normalized_latency, queue, itl``), a rate (``throughput, request_throughput,
        goodput``), ``attainment``, ``mean_batch`` or ``prefix_hit_rate``.
    percentile : float, optional
        For a latency: this percentile instead of the mean.
    confidence : float
        Coverage.
    kind : {"confidence", "prediction"}
        For the figure of an endless run of this workload, or for that of another run as long as this one, a measured
        one for instance: as uncertain itself, so the interval is wider by the root of two.
    ttft, tpot : float
        Limits of ``goodput`` and ``attainment``, seconds.

    Raises
    ------
    InputError
        On an unknown metric or kind, a percentile of what has none, or a value out of its range.
    """
    if metric not in FIGURES:
        raise InputError(f"metric: unknown metric {metric!r}; expected one of {', '.join(FIGURES)}")
    if percentile is not None and metric not in (*LATENCIES, "itl"):
        raise InputError(f"percentile: {metric} is one number of a run; leave the percentile out")
    if percentile is not None:
        check_percentile(percentile)
    rows = np.flatnonzero(result.finished)
    rows = rows[np.argsort(result.arrival[rows], kind="stable")]
    if metric in RATES:
        whole, batch, n = _rate(result, metric, rows, ttft, tpot)
    elif metric == "itl":
        whole, batch, n = _gaps(result, percentile, rows)
    elif metric == "mean_batch":
        whole, batch, n = _batch_sizes(result, rows)
    else:
        whole, batch, n = _of_requests(result, metric, percentile, rows, ttft, tpot)
    found = sectioned(whole, batch, n, confidence=confidence, kind=kind)
    top = 1.0 if metric in ("attainment", "prefix_hit_rate") else float("inf")
    low, high = (x if np.isnan(x) else min(max(x, 0.0), top) for x in (found.low, found.high))
    return Interval(found.value, low, high, confidence, found.batches, found.correlated)


def intervals(
    result: LLMResult, *, confidence: float = 0.9, kind: str = "confidence", percentiles: Iterable[float] = (50, 90)
) -> dict[str, Interval]:
    """Intervals of the figures of `LLMResult.summary` that have one, by its names."""
    names = ("throughput", "request_throughput", "normalized_latency", "mean_batch", "prefix_hit_rate")
    figures = {name: interval(result, name, confidence=confidence, kind=kind) for name in names}
    for name in ("ttft", "tpot", "itl", "e2e"):
        for p in percentiles:
            figures[f"{name}_p{p:g}"] = interval(result, name, p, confidence=confidence, kind=kind)
    return figures


def replicated(
    run: Callable[[int], LLMResult],
    seeds: Iterable[int] | int = 10,
    *,
    confidence: float = 0.9,
    kind: str = "confidence",
) -> dict[str, Interval]:
    """Run a simulation with several seeds; returns an interval for every figure of its `summary`.

    Runs are independent, so nothing has to be assumed about correlation within a run: the surest way, if there is time.

    Parameters
    ----------
    run : callable
        Seed -> result; the workload must be drawn from the seed, too.
    seeds : iterable of int, or int
        The seeds; a number means ``0 … n - 1``.
    confidence : float
        Coverage of the intervals.
    kind : {"confidence", "prediction"}
        Interval for the mean over all seeds, or for the figure of one further run.

    Raises
    ------
    InputError
        On no seed, an unknown kind, or a confidence outside (0, 1).
    """
    check_interval(confidence, kind)
    rows = [run(seed).summary() for seed in (range(seeds) if isinstance(seeds, int) else seeds)]
    if not rows:
        raise InputError("replicated: expected at least one seed")
    return {name: over_seeds([row[name] for row in rows], confidence=confidence, kind=kind) for name in rows[0]}


def _of_requests(
    result: LLMResult, metric: str, percentile: float | None, rows: npt.NDArray[np.int64], ttft: float, tpot: float
) -> tuple[float, Batch, int]:
    """A figure that is a mean over requests, and how to batch it: by requests in order of arrival."""
    if metric == "attainment":
        asked = np.flatnonzero(np.ones(len(result), dtype=bool) if result.counted is None else result.counted)
        asked = asked[np.argsort(result.arrival[asked], kind="stable")]
        values: Column = result.good(ttft, tpot)[asked].astype(np.float64)
    elif metric == "prefix_hit_rate":
        admitted = np.flatnonzero(~np.isnan(result.scheduled))
        admitted = admitted[np.argsort(result.arrival[admitted], kind="stable")]
        had, asked = result.cached_tokens[admitted], result.trace.prompt_tokens[admitted]

        def rates(count: int) -> list[float]:
            parts = zip(np.array_split(had, count), np.array_split(asked, count), strict=True)
            return [float(a.sum() / b.sum()) for a, b in parts]

        return result.prefix_hit_rate, rates, len(admitted)
    else:
        all_of_them = result.latencies[metric][rows]
        values = all_of_them[~np.isnan(all_of_them)]

    def figure(x: Column) -> float:
        if not len(x):
            return float("nan")
        return float(x.mean()) if percentile is None else float(np.percentile(x, percentile))

    return figure(values), lambda count: [figure(part) for part in np.array_split(values, count)], len(values)


def _rate(
    result: LLMResult, metric: str, rows: npt.NDArray[np.int64], ttft: float, tpot: float
) -> tuple[float, Batch, int]:
    """A figure that is a rate (what finishes per second; for goodput, what arrives), batched by windows of time."""
    low, high = result.span
    times, amount = result.finish[rows], np.ones(len(rows))
    if metric == "throughput":
        amount = (result.generated * result.sequences)[rows].astype(np.float64)
    if metric == "goodput":
        amount = result.good(ttft, tpot)[rows].astype(np.float64)
        first, last = result.arrival_span
        if last > first:
            (low, high), times = (first, last), result.arrival[rows]

    def windows(count: int) -> list[float]:
        sums, _ = np.histogram(times, np.linspace(low, high, count + 1), weights=amount)
        return [float(x) for x in sums / ((high - low) / count)]

    return float(amount.sum() / (high - low)) if high > low else float("nan"), windows, len(rows)


def _gaps(result: LLMResult, percentile: float | None, rows: npt.NDArray[np.int64]) -> tuple[float, Batch, int]:
    """Times between tokens: batches of requests in order of arrival."""
    runs: TokenRuns = result.runs

    def figure(some: npt.NDArray[np.int64]) -> float:
        mask = np.zeros(len(result), dtype=bool)
        mask[some] = True
        values, often = runs.gaps(result.iterations.end, mask)
        if not len(values):
            return float("nan")
        return (
            float(np.average(values, weights=often))
            if percentile is None
            else weighted_percentile(values, often, percentile)
        )

    return figure(rows), lambda count: [figure(part) for part in np.array_split(rows, count)], len(rows)


def _batch_sizes(result: LLMResult, rows: npt.NDArray[np.int64]) -> tuple[float, Batch, int]:
    """Requests that run at once: windows of time."""
    it, (low, high) = result.iterations, result.span

    def windows(count: int) -> list[float]:
        edges = np.linspace(low, high, count + 1)
        some, busy = (np.diff(it.integral(x, edges)) for x in (it.running, np.ones(len(it))))
        return [float(a / b) if b > 0 else float("nan") for a, b in zip(some, busy, strict=True)]

    return result.mean_batch, windows, len(rows)
