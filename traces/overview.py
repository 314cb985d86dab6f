"""`report` and `rates`: describe a trace by its requests, rates, CVs and burstiness; `draw_rates` draws the rates."""

from __future__ import annotations

# pandas, scipy and pyarrow bring no type stubs.
# pyright: reportMissingTypeStubs=false
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from .columns import FloatArray
from .trace import Trace

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["draw_rates", "rates", "report"]

ALL = "(all)"
DRAWN = 8  # models that are drawn by name: more colours cannot be told apart
MAX_WINDOWS = 10_000_000  # a table of more is a slip of the window: it takes 80 MB for each model


def report(trace: Trace, window: float = 60.0) -> pd.DataFrame:
    """One row per model, busiest first, and a last one, ``(all)``, for all requests together.

    Columns: ``model``; ``requests``; ``share`` of all requests; ``rate``, per second over the whole trace; ``cv`` of
    the gaps between arrivals (NaN with fewer than two gaps); ``peak_rate``, the highest in any window, per second;
    ``peak_to_mean``, that over the mean rate; ``median_slo``, seconds.

    Parameters
    ----------
    trace : Trace
        The trace.
    window : float
        Seconds over which a rate is taken for the peak. A last window that is cut off by the end of the trace is
        left out unless it is the only one.

    Raises
    ------
    InputError
        On a window that is not positive and finite.
    """
    import pandas as pd

    n = _windows(trace, window)
    streams = trace.arrivals_by_model()
    by_model = np.argsort(trace.model, kind="stable")
    slos = np.split(trace.slo[by_model], np.cumsum(trace.counts())[:-1])
    rows = [
        (name, len(times), *_character(times, trace.duration, window, n), _median(slo))
        for name, times, slo in zip(trace.models, streams, slos, strict=True)
    ]
    rows.sort(key=lambda row: -row[1])  # busiest first; stable, so that ties keep the trace's order
    rows.append((ALL, len(trace), *_character(trace.arrival, trace.duration, window, n), _median(trace.slo)))
    columns = ["model", "requests", "rate", "cv", "peak_rate", "peak_to_mean", "median_slo"]
    frame = pd.DataFrame(rows, columns=columns)
    frame.insert(2, "share", np.array([row[1] for row in rows]) / len(trace))
    return frame


def _character(times: FloatArray, duration: float, window: float, n: int) -> tuple[float, float, float, float]:
    """Rate, CV, peak rate and peak to mean of one stream of arrivals."""
    rate = len(times) / duration if duration > 0 else math.inf
    gaps = np.diff(times)
    mean = float(gaps.mean()) if len(gaps) > 1 else 0.0
    cv = float(gaps.std(ddof=1)) / mean if mean > 0 else math.nan
    peak = float(np.bincount((times / window).astype(np.int64), minlength=n)[:n].max()) / min(window, duration or 1)
    return rate, cv, peak, peak / rate if rate > 0 else math.nan


def _median(slo: FloatArray) -> float:
    return float(np.median(slo)) if len(slo) else math.nan


def _windows(trace: Trace, window: float) -> int:
    """Whole windows in a trace, at least 1."""
    if not (math.isfinite(window) and window > 0):
        raise InputError(f"window: expected positive and finite seconds (got {window})")
    if trace.duration / window > MAX_WINDOWS:
        raise InputError(
            f"window: {window:g} s cut {trace.duration:g} s into more than {MAX_WINDOWS:.0e} windows; take longer ones"
        )
    return max(1, int(trace.duration // window))


def rates(trace: Trace, window: float = 60.0) -> pd.DataFrame:
    """Arrivals per second in every whole window: a row per window, indexed by its start, a column per model."""
    import pandas as pd

    n = _windows(trace, window)
    cell = np.minimum((trace.arrival / window).astype(np.int64), n) * len(trace.models) + trace.model
    count = np.bincount(cell, minlength=(n + 1) * len(trace.models)).reshape(n + 1, -1)[:n]
    index = pd.Index(np.arange(n) * window, name="start")
    return pd.DataFrame(count / min(window, trace.duration or window), index=index, columns=list(trace.models))


def draw_rates(frame: pd.DataFrame, ax: Axes) -> Axes:
    """Draw what `rates` gives: the rate of all models together, and of the eight busiest, over time."""
    axes: Any = ax
    table: Any = frame
    total = table.sum(axis=1)
    mean = float(total.mean())
    axes.plot(table.index, total, color="black", linewidth=1.2, label="all models")
    for name in table.sum().sort_values(ascending=False).index[:DRAWN]:
        axes.plot(table.index, table[name], linewidth=0.8, label=str(name))
    axes.axhline(mean, color="grey", linestyle=":", linewidth=1.0, label=f"mean {mean:.3g}/s")
    axes.set_xlabel("time (s)")
    axes.set_ylabel("arrivals per second")
    axes.set_ylim(bottom=0)
    axes.set_title(f"peak {float(total.max()) / mean:.2g} × mean" if mean > 0 else "no arrivals")
    axes.legend(fontsize="small", ncols=2)
    return ax
