"""Views of what LLM engines did: their state over time, and a timeline."""

from __future__ import annotations

# pandas brings no type stubs.
# pyright: reportMissingTypeStubs=false
from typing import TYPE_CHECKING, Any

import numpy as np

from ....errors import InputError
from ...timeline import Timeline
from .iterations import Iterations

if TYPE_CHECKING:
    import pandas as pd

    from .columns import LLMResult

__all__ = ["memory_saving", "over_time", "summary", "timeline", "to_frame"]


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


def summary(result: LLMResult) -> dict[str, float]:
    """The figures that one looks at first; seconds, tokens and requests per second, shares."""
    figures = {
        "requests": float(len(result)),
        "finished": float(result.finished.sum()),
        "ignored": float(result.ignored.sum()),
        "throughput": result.throughput,
        "request_throughput": result.request_throughput,
        "normalized_latency": result.normalized_latency,
        "mean_batch": result.mean_batch,
        "preemptions": float(result.preemptions.sum()),
        "swapped_blocks": float(result.iterations.swap_out.sum() + result.iterations.swap_in.sum()),
        "prefix_hit_rate": result.prefix_hit_rate,
    }
    for name in ("ttft", "tpot", "itl", "e2e"):
        for p in (50, 90):
            figures[f"{name}_p{p}"] = getattr(result, name)(p)
    return figures


def to_frame(result: LLMResult) -> pd.DataFrame:
    """One row per request: what was asked, times, latencies, and how it fared."""
    import pandas as pd

    asked: Any = result.trace.to_frame()
    names = ("arrival", "scheduled", "first_token", "finish", "generated", "preemptions", "cached_tokens", "engine")
    told = {name: getattr(result, name) for name in names}
    return pd.DataFrame({**told, "ignored": result.ignored, **result.latencies}).join(asked.drop(columns="arrival"))
