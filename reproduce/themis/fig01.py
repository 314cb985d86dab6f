"""Figure 1 (Themis): how many GPUs the apps ask for over time."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...simulator.sharing import WorkloadOptions, workload1
from ..claims import Claim, Expectation, at_least, within
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import BLUE, GREY, canvas
from .experiments.workloads import NOTES, TRACE_DAYS, demand_within

DAY_S = 86400.0
EXPECTED = {
    "mean": Expectation(
        "average GPU demand of the 85 apps, arriving over the public trace's 137 days; mean of the draws",
        "§2.2, Fig. 1", "~50", within(50, 0.25, partly=0.5), "{:.0f}",
    ),
    "weeks": Expectation(
        "average GPU demand of the same apps, arriving in the two weeks that §6.1 replays, not scaled down",
        "§2.2, §6.1", "~50", within(50, 0.25, partly=0.5), "{:.0f}",
    ),
    "bursty": Expectation(
        "demand is bursty: peak over average of seed's draw (no number printed; twice is asked)", "§2.2, Fig. 1",
        "bursty", at_least(2), "{:.1f}×", kind="given",
    ),
}  # fmt: skip


def demands(seeds: range) -> Frame:
    """Mean and peak of demand, by draw and by the days over which the apps arrive."""
    import pandas as pd

    rows = []
    for days in (TRACE_DAYS, 14.0):
        for seed in seeds:
            apps = workload1(WorkloadOptions(seed=seed, span_s=days * DAY_S))
            _, gpus, mean = demand_within(apps, days * DAY_S)
            rows.append({"days": days, "seed": seed, "mean_gpus": mean, "peak_gpus": float(gpus.max())})
    return pd.DataFrame(rows)


def judged(frame: Frame) -> list[Claim]:
    """Judge our numbers against every claim of the paper."""
    long, short = (frame[frame.days == days] for days in (TRACE_DAYS, 14.0))
    first = long.iloc[0]
    return [
        EXPECTED["mean"].judge(
            float(long.mean_gpus.mean()),
            why="the medians that Figures 2 to 4 print leave the mean open; that of our draws follows from a tenth of "
            "the tasks being over ten times the median",
        ),
        EXPECTED["weeks"].judge(
            float(short.mean_gpus.mean()),
            why="85 apps with a median of 11.5 GPU days and a long tail are more work than 50 GPUs do in two weeks "
            "(8.2 GPU days an app): §6.1's trace must have been scaled down, by how much is not printed",
        ),
        EXPECTED["bursty"].judge(float(first.peak_gpus / first.mean_gpus)),
    ]


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure."""
    session = Session("themis/fig01", fast, out, seed)
    frame = session.table(demands(range(seed, seed + (3 if fast else 50))))
    apps = workload1(WorkloadOptions(seed=seed, span_s=TRACE_DAYS * DAY_S))
    at, gpus, mean = demand_within(apps, TRACE_DAYS * DAY_S)
    with canvas(1, 1, width=4.6, height=2.2) as (figure, axes):
        ax = axes[0, 0]
        ax.step(at / DAY_S, gpus, where="post", color=BLUE, linewidth=0.8, label="demand of one draw")
        ax.axhline(mean, color=BLUE, linestyle="--", linewidth=0.8, label="its mean")
        ax.axhline(50, color=GREY, linestyle="--", linewidth=0.8, label="mean printed")
        ax.set(xlabel="days", ylabel="GPUs", xlim=(0, TRACE_DAYS), ylim=(0, float(np.max(gpus)) * 1.05))
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=7)
        session.figure(figure)
    return session.finish(judged(frame), notes=(*NOTES, "demand is what apps could use if nobody waited or was slowed"))


if __name__ == "__main__":
    main("themis/fig01")
