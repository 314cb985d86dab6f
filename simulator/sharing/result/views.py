"""Views of a sharing result: its summary, a table of apps, and a picture."""

from __future__ import annotations

# pandas brings no type stubs.
# pyright: reportMissingTypeStubs=false
from typing import TYPE_CHECKING

import numpy as np

from ...palette import BLACK
from ...plots import draw_cdf, draw_steps, panels
from ...summary import Figure, Summary
from .metrics import sharing_metrics

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Drawing

    from .columns import SharingResult

__all__ = ["plot", "summary", "to_frame"]

SAYS = {
    "max_rho": ("", "finish-time fairness of the worst completed app"),
    "median_rho": ("", "finish-time fairness, median of completed apps"),
    "fair_share": ("", "share of completed apps with ρ <= 1"),
    "jain": ("", "Jain's index of 1/ρ"),
    "gpu_hours": ("h", "GPU time that apps held"),
    "work_hours": ("h", "GPU time that the completed work takes on one GPU each"),
    "placement": ("", "mean placement score of allocations"),
    "mean_completion_s": ("s", "arrival to end, mean of completed apps"),
    "makespan_s": ("s", "when the last app ended"),
    "utilisation": ("", "GPU time held over all GPUs"),
}


def summary(result: SharingResult) -> Summary:
    """Counts, `attainment` and `goodput`, and all of `sharing_metrics`."""
    metrics = sharing_metrics(result)
    figures = [
        Figure("apps", float(len(result)), "", "that arrived"),
        Figure("completed", float(result.completed.sum()), "", "apps whose work was done"),
        Figure("attainment", result.attainment, "", "share of all apps with ρ <= 1"),
        Figure("goodput", result.goodput, "1/s", "those, per second of arrivals"),
    ]
    figures += [Figure(name, getattr(metrics, name), unit, says) for name, (unit, says) in SAYS.items()]
    return Summary(repr(result), figures)


def to_frame(result: SharingResult) -> pd.DataFrame:
    """One row per app."""
    import pandas as pd

    apps = result.world.apps
    return pd.DataFrame(
        {
            "app": [a.name for a in apps],
            "arrival_s": np.array([a.arrival_s for a in apps], dtype=np.float64),
            "start_s": result.start,
            "finish_s": result.finish,
            "completion_s": result.completion_s,
            "completed": result.completed,
            "rho": result.rho,
            "gpu_s": result.gpu_seconds,
            "contention": result.contention,
        }
    )


def plot(result: SharingResult) -> Drawing:
    """Left the distribution of ρ with the promise at 1; right how many apps run and wait over time."""
    arrival = np.array([a.arrival_s for a in result.world.apps], dtype=np.float64)
    start = np.where(np.isfinite(result.start), result.start, result.finish)  # who never had a GPU waited to the end
    edges = np.unique(np.concatenate(([0.0], arrival, start, result.finish)))
    there, begun, ended = (np.searchsorted(np.sort(x), edges, side="right") for x in (arrival, start, result.finish))
    with panels(2.6, columns=2, title=repr(result)) as (figure, (left, right)):
        draw_cdf(left, {"completed apps": result.rho[result.completed]}, "finish-time fairness ρ")
        left.axvline(1.0, color=BLACK, ls="--", lw=0.8)
        draw_steps(right, edges, {"begun": begun - ended, "waiting": there - begun}, "apps")
    return figure
