"""How a serving result is shown: `summary` (figures with units) and `plot` (a matplotlib figure)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..plots import draw_cdf, draw_steps, panels
from ..summary import Figure, Summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from .result import SimulationResult

__all__ = ["plot", "summary"]


def summary(result: SimulationResult) -> Summary:
    """Counts, shares, requests per second and seconds; `attainment` and `goodput` only where a request has an SLO."""
    figures = [
        Figure("requests", float(len(result)), "", "that arrived"),
        Figure("rejected", float(result.rejected.sum()), "", "requests that were rejected or dropped"),
    ]
    if result.has_slo:
        figures += [
            Figure("attainment", result.attainment, "", "share of all requests that finished within their SLO"),
            Figure("goodput", result.goodput, "1/s", "those, per second of arrivals"),
        ]
    figures.append(Figure("mean_latency", result.mean_latency, "s", "of served requests"))
    figures += [
        Figure(f"latency_p{p}", result.latency(p), "s", f"{p}th percentile of served requests") for p in (50, 90, 99)
    ]
    figures.append(Figure("utilization", float(np.mean(result.utilization())), "", "busy share of the groups, mean"))
    return Summary(repr(result), figures)


def plot(result: SimulationResult) -> Drawing:
    """Latencies of each model, and how busy the devices are over time."""
    with panels(2.6, columns=2, title=repr(result)) as (figure, (left, right)):
        latency = result.finish - result.trace.arrival
        models = {name: latency[result.trace.model == k] for k, name in enumerate(result.trace.models)}
        draw_cdf(left, models, "latency (s)")
        # 200 windows: as many as a panel shows apart.
        window = max(result.horizon, 1e-9) / 200
        busy = result.utilization(window)
        draw_steps(right, np.arange(len(busy), dtype=np.float64) * window, {"devices": busy}, "busy share")
    return figure
