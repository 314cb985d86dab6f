"""Figure 3 (Themis): GPU time of an app."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..simulator.sharing import WorkloadOptions, workload1
from ..simulator.sharing.workloads_statistics import app_gpu_s
from .claims import Claim, Expectation, at_least, between
from .figures import main
from .report import Frame, Progress, Report, Session, quiet
from .style import BLUE, canvas
from .themis_workloads import NOTES, cdf_frame, draw_cdfs

TITLE = "Themis: GPU time of an app"

MEDIAN_DAYS = 11.5
EXPECTED = {
    "median": Expectation(
        "median GPU days of an app (given: so they are drawn; two standard errors of the median of 85 are a factor of "
        "1.7)", "§2.2, Fig. 3", "11.5", between(MEDIAN_DAYS / 1.7, MEDIAN_DAYS * 1.7), "{:.1f}",
    ),
    "longer": Expectation(
        "many apps are more than ten times longer: their share (no number printed; 5 % is asked)", "§2.2, Fig. 3",
        "many", at_least(0.05, partly=0.02), "{:.1%}",
    ),
    "shorter": Expectation(
        "a significant fraction is more than ten times shorter (no number printed; 5 % is asked)", "§2.2, Fig. 3",
        "significant", at_least(0.05, partly=0.02), "{:.1%}",
    ),
}  # fmt: skip


def judged(frame: Frame) -> list[Claim]:
    """All claims."""
    days = frame.value.to_numpy()
    return [
        EXPECTED["median"].judge(float(np.median(days))),
        EXPECTED["longer"].judge(float((days > 10 * MEDIAN_DAYS).mean()), why="a draw of 85 apps"),
        EXPECTED["shorter"].judge(float((days < MEDIAN_DAYS / 10).mean()), why="a draw of 85 apps"),
    ]


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure; fast and full are the same."""
    session = Session("themis_figure3", TITLE, fast, out, seed)
    frame = session.table(cdf_frame({"85 apps drawn": app_gpu_s(workload1(WorkloadOptions(seed=seed))) / 86400}))
    with canvas(1, 1) as (figure, axes):
        draw_cdfs(axes[0, 0], frame, (BLUE,), MEDIAN_DAYS)
        axes[0, 0].set(xlabel="GPU days of an app", xscale="log")
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2, fontsize=7)
        session.figure(figure)
    return session.finish(judged(frame), notes=NOTES)


if __name__ == "__main__":
    main("themis_figure3")
