"""Views of what LLM engines did: their state over time, and a timeline."""

from __future__ import annotations

# pandas brings no type stubs.
# pyright: reportMissingTypeStubs=false
from typing import TYPE_CHECKING, Any

import numpy as np

from ....errors import InputError
from ...plots import draw_cdf, draw_steps, panels
from ...summary import Figure, Summary
from ...timeline import Timeline
from .iterations import Iterations

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Drawing

    from .columns import LLMResult

__all__ = ["memory_saving", "over_time", "plot", "summary", "timeline", "to_frame"]


def over_time(it: Iterations, window_s: float) -> pd.DataFrame:
    """State of all engines together in windows of time, averaged over each window.

    Parameters
    ----------
    it : Iterations
        What the engines did.
    window_s : float
        Seconds, > 0.

    Returns
    -------
    DataFrame
        Indexed by the window's begin, seconds: ``running``, ``waiting`` (requests, after each decision), ``kv_use``
        (share of the token slots that is held), ``kv_waste`` (share of all slots that is held without a token),
        ``busy`` (share of the engines' time), ``prefill_tokens_s`` and ``decode_tokens_s`` (computed per second).
    """
    import pandas as pd

    if not window_s > 0:
        raise InputError(f"over_time: expected a window > 0 seconds (got {window_s})")
    until = float(it.end.max()) if len(it) else 0.0
    edges = np.arange(0.0, until + window_s, window_s)
    slots = max(it.capacity_tokens * it.engines, 1)
    length = it.end - it.start
    with np.errstate(divide="ignore", invalid="ignore"):
        columns = {
            "running": it.running,
            "waiting": it.waiting,
            "kv_use": it.used_tokens / slots,
            "kv_waste": it.wasted_tokens / slots,
            "busy": np.full(len(it), 1 / it.engines),
            "prefill_tokens_s": it.prefill / length,
            "decode_tokens_s": it.decodes / length,
        }
    frame = {name: np.diff(it.integral(column, edges)) / window_s for name, column in columns.items()}
    return pd.DataFrame(frame, index=pd.Index(edges[:-1], name="time"))


def timeline(it: Iterations) -> Timeline:
    """Every iteration as a span, one lane per engine, by what it computes; `request` is the iteration's row."""
    kind = np.where(it.prefill > 0, np.where(it.decodes > 0, 2, 0), np.where(it.decodes > 0, 1, 3))
    return Timeline(
        lane=it.engine.astype(np.int32),
        start=it.start,
        end=it.end,
        name=kind.astype(np.int32),
        request=np.arange(len(it)),
        lanes=[f"engine {i}" for i in range(it.engines)],
        names=["prefill", "decode", "mixed", "swap"],
        processes=["engines"] * it.engines,
    )


def memory_saving(iterations: Iterations) -> float:
    """Share of the blocks that sharing saves: saved over needed without sharing, averaged over the time in which
    something runs (vLLM Fig. 5.15).

    Returns
    -------
    float
        In [0, 1); 0 where nothing is shared, NaN where nothing runs.
    """
    it = iterations
    if it.shared_tokens is None:
        return 0.0 if len(it) else float("nan")
    length, apart = it.end - it.start, it.used_tokens + it.shared_tokens
    some = (it.running > 0) & (apart > 0)
    total = float(length[some].sum())
    return float((it.shared_tokens[some] / apart[some] * length[some]).sum() / total) if total else float("nan")


LATENCIES = {
    "ttft": "arrival to first token",
    "tpot": "time per further token",
    "itl": "between two tokens",
    "e2e": "arrival to finish",
}


def summary(result: LLMResult) -> Summary:
    """The figures that one looks at first; seconds, tokens and requests per second, shares."""
    it = result.iterations
    figures = [
        Figure("requests", float(len(result)), "", "that were asked"),
        Figure("finished", float(result.finished.sum()), "", "requests that finished and are counted"),
        Figure("ignored", float(result.ignored.sum()), "", "requests that were refused or given up"),
        *_judged(result),
        Figure("throughput", result.throughput, "tokens/s", "tokens of finished requests"),
        Figure("request_throughput", result.request_throughput, "1/s", "finished requests"),
        Figure("normalized_latency", result.normalized_latency, "s/token", "mean latency per output token"),
        Figure("mean_batch", result.mean_batch, "", "requests that run at once"),
        Figure("preemptions", float(result.preemptions.sum()), "", "times that a request lost its memory"),
        Figure(
            "swapped_blocks", float(it.swap_out.sum() + it.swap_in.sum()), "", "KV blocks moved to the host and back"
        ),
        Figure("prefix_hit_rate", result.prefix_hit_rate, "", "share of prompt tokens that the cache held"),
    ]
    for name, says in LATENCIES.items():
        figures += [
            Figure(f"{name}_p{p}", getattr(result, name)(p), "s", f"{says}, {p}th percentile") for p in (50, 90)
        ]
    return Summary(repr(result), figures)


def _judged(result: LLMResult) -> list[Figure]:
    """Attainment and goodput where the result has limits; without one they would say nothing about latency."""
    limits = {"TTFT": result.ttft_limit_s, "TPOT": result.tpot_limit_s}
    said = " and ".join(f"{name} <= {limit:g} s" for name, limit in limits.items() if np.isfinite(limit))
    if not said:
        return []
    return [
        Figure("attainment", float(result.attainment), "", f"share of requests with {said}"),
        Figure("goodput", float(result.goodput), "1/s", "those, per second of arrivals"),
    ]


def plot(result: LLMResult) -> Drawing:
    """Latencies, and what ran and waited over time."""
    it = result.iterations
    until = float(it.end.max()) if len(it) else 1.0
    with panels(2.6, columns=2, title=repr(result)) as (figure, (left, right)):
        lines = {name.upper(): result.values(name) for name in ("ttft", "tpot", "e2e")}
        draw_cdf(left, lines, "latency (s)")
        axes: Any = left
        axes.set_xscale("log")
        # 200 windows: as many as a panel shows apart.
        states: Any = over_time(it, until / 200)
        edges = states.index.to_numpy(dtype=np.float64)
        draw_steps(right, edges, {name: states[name].to_numpy() for name in ("running", "waiting")}, "requests")
    return figure


def to_frame(result: LLMResult) -> pd.DataFrame:
    """One row per request: what was asked, times, latencies, and how it fared."""
    import pandas as pd

    asked: Any = result.trace.to_frame()
    names = ("arrival", "scheduled", "first_token", "finish", "generated", "preemptions", "cached_tokens", "engine")
    told = {name: getattr(result, name) for name in names}
    return pd.DataFrame({**told, "ignored": result.ignored, **result.latencies}).join(asked.drop(columns="arrival"))
