"""What Themis' figures of workloads share: the draws, and distribution functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ....simulator.sharing import App
from ....simulator.sharing.workload.statistics import demand
from ...report import Frame
from ...style import GREY

__all__ = ["NOTES", "TRACE_DAYS", "cdf_frame", "demand_within", "draw_cdfs", "two_sided"]

TRACE_DAYS = 137.0
"""Days from the first to the last submission of the public trace (7 August to 22 December 2017)."""

NOTES = (
    "the trace of 85 apps is not public: apps are drawn, so that the medians and shares that the text prints hold of "
    "the distributions; what is judged is whether one draw of 85 comes near them (two standard errors)",
)


def demand_within(apps: Sequence[App], end_s: float) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], float]:
    """Demand over time if nobody waits, up to `end_s`, and its mean until then."""
    at, gpus = demand(apps)
    inside = at < end_s
    at, gpus = at[inside], gpus[inside]
    return at, gpus, float((gpus * np.diff(np.append(at, end_s))).sum() / end_s)


def two_sided(p: float, n: int) -> tuple[float, float]:
    """Where a share p of n draws lies with two standard errors."""
    error = 2 * float(np.sqrt(p * (1 - p) / n))
    return p - error, p + error


def cdf_frame(series: Mapping[str, npt.ArrayLike]) -> Frame:
    """Distribution functions as a table: a row for each value of each series."""
    import pandas as pd

    parts = []
    for name, values in series.items():
        ranked = np.sort(np.asarray(values, dtype=np.float64))
        parts.append(
            pd.DataFrame({"series": name, "value": ranked, "cdf": np.arange(1, len(ranked) + 1) / len(ranked)})
        )
    return pd.concat(parts, ignore_index=True)


def draw_cdfs(ax: object, frame: Frame, colours: Sequence[str], at: float | None = None) -> None:
    """Draw distribution functions, with the printed median if there is one."""
    axes: Frame = ax
    for (name, part), colour in zip(frame.groupby("series", sort=False), colours, strict=True):
        axes.step(part.value, part.cdf, where="post", color=colour, label=name)
    axes.set(ylim=(0, 1), ylabel="share")
    if at is not None:
        axes.axhline(0.5, color=GREY, linewidth=0.6)
        axes.axvline(at, color=GREY, linestyle="--", linewidth=0.8, label="median printed")
