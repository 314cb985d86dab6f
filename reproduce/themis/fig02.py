"""Figure 2 (Themis): how many jobs apps have."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...simulator.sharing import WorkloadOptions, workload1
from ...simulator.sharing.workload.statistics import jobs_per_app
from ..claims import Claim, Expectation, between
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import BLUE, canvas
from .experiments.workloads import NOTES, cdf_frame, draw_cdfs, two_sided

EXPECTED = {
    "single": Expectation(
        "share of the apps with one job (given: so they are drawn)", "§2.2, Fig. 2", "~10 %",
        between(*two_sided(0.10, 85)), "{:.1%}", kind="given",
    ),
    "median": Expectation(
        "median number of jobs (given: so they are drawn)", "§2.2, Fig. 2", "75", between(67, 83), "{:.0f}",
        kind="given",
    ),
    "most": Expectation(
        "the most jobs of an app (given: so they are drawn)", "§2.2, Fig. 2", "as many as 100", between(96, 100),
        "{:.0f}", kind="given",
    ),
}  # fmt: skip


def judged(frame: Frame) -> list[Claim]:
    """Judge our numbers against every claim of the paper."""
    jobs = frame.value.to_numpy()
    return [
        EXPECTED["single"].judge(float((jobs == 1).mean())),
        EXPECTED["median"].judge(float(np.median(jobs))),
        EXPECTED["most"].judge(float(jobs.max())),
    ]


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure; fast and full are the same."""
    session = Session("themis/fig02", fast, out, seed)
    frame = session.table(cdf_frame({"85 apps drawn": jobs_per_app(workload1(WorkloadOptions(seed=seed)))}))
    with canvas(1, 1) as (figure, axes):
        draw_cdfs(axes[0, 0], frame, (BLUE,), 75)
        axes[0, 0].set(xlabel="jobs of an app", xlim=(0, 100))
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2, fontsize=7)
        session.figure(figure)
    return session.finish(judged(frame), notes=NOTES)


if __name__ == "__main__":
    main("themis/fig02")
