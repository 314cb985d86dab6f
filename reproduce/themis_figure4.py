"""Figure 4 (Themis): GPU time of a task."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..simulator.sharing import WorkloadOptions, workload1
from ..simulator.sharing.workloads_statistics import task_s
from .claims import Claim, Expectation, at_least, between
from .figures import main
from .report import Frame, Progress, Report, Session, quiet
from .style import BLUE, canvas
from .themis_workloads import NOTES, cdf_frame, draw_cdfs

TITLE = "Themis: GPU time of a task"

MEDIAN_H = 3.75
EXPECTED = {
    "median": Expectation(
        "median GPU hours of a task (given: so they are drawn; tasks of an app are alike, so two standard errors are "
        "those of 85 apps, a factor of 1.7)", "§2.2, Fig. 4", "3.75", between(MEDIAN_H / 1.7, MEDIAN_H * 1.7), "{:.2f}",
    ),
    "longer": Expectation(
        "many tasks are more than ten times longer: their share (no number printed; 5 % is asked)", "§2.2, Fig. 4",
        "many", at_least(0.05, partly=0.02), "{:.1%}",
    ),
    "shorter": Expectation(
        "a significant fraction is more than ten times shorter (no number printed; 5 % is asked)", "§2.2, Fig. 4",
        "significant", at_least(0.05, partly=0.02), "{:.1%}",
    ),
}  # fmt: skip


def judged(frame: Frame) -> list[Claim]:
    """All claims."""
    hours = frame.value.to_numpy()
    return [
        EXPECTED["median"].judge(float(np.median(hours))),
        EXPECTED["longer"].judge(float((hours > 10 * MEDIAN_H).mean()), why="a draw of 85 apps"),
        EXPECTED["shorter"].judge(float((hours < MEDIAN_H / 10).mean()), why="a draw of 85 apps"),
    ]


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure; fast and full are the same."""
    session = Session("themis_figure4", TITLE, fast, out, seed)
    frame = session.table(cdf_frame({"tasks of 85 apps": task_s(workload1(WorkloadOptions(seed=seed))) / 3600}))
    with canvas(1, 1) as (figure, axes):
        draw_cdfs(axes[0, 0], frame, (BLUE,), MEDIAN_H)
        axes[0, 0].set(xlabel="GPU hours of a task", xscale="log")
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2, fontsize=7)
        session.figure(figure)
    return session.finish(judged(frame), notes=NOTES)


if __name__ == "__main__":
    main("themis_figure4")
