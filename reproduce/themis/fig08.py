"""Figure 8 (Themis): GPUs of a job and jobs of an app in the two workloads."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...simulator.sharing import App, WorkloadOptions, workload1, workload2
from ...simulator.sharing.workload.statistics import gpus_per_job, jobs_per_app
from ..claims import Claim, Expectation, at_least, between
from ..figures import main
from ..report import Progress, Report, Session, quiet
from ..style import BLUE, VERMILLION, canvas
from .experiments.workloads import NOTES, cdf_frame, draw_cdfs

EXPECTED = {
    "small": Expectation(
        "Workload 1: share of the jobs with one or two GPUs", "§6.2, Fig. 8", "all", between(1, 1), "{:.0%}",
        kind="given",
    ),
    "more": Expectation(
        "Workload 2 has more tasks per job: mean GPUs of a job over Workload 1's", "§6.1, Fig. 8", "more",
        at_least(1.0001), "{:.1f}×", kind="given",
    ),
    "halving": Expectation(
        "Workload 2: apps whose phases have n, n/2, … 1 jobs, n a power of two (successive halving)", "§6.1, §4.3.2",
        "all", between(1, 1), "{:.0%}", kind="given",
    ),
    "arrivals": Expectation(
        "Workload 2: apps that arrive when those of Workload 1 do", "§6.1", "all", between(1, 1), "{:.0%}",
        kind="given",
    ),
}  # fmt: skip


def judged(one: tuple[App, ...], two: tuple[App, ...]) -> list[Claim]:
    """Judge our numbers against every claim of the paper."""
    gpus1, gpus2 = gpus_per_job(one), gpus_per_job(two)
    halved = [
        [len(p.jobs) for p in a.phases] == [len(a.jobs) >> k for k in range(len(a.phases))]
        and len(a.phases[-1].jobs) == 1
        for a in two
    ]
    together = [a.arrival_s == b.arrival_s for a, b in zip(one, two, strict=True)]
    return [
        EXPECTED["small"].judge(float(np.isin(gpus1, (1, 2)).mean())),
        EXPECTED["more"].judge(float(gpus2.mean() / gpus1.mean())),
        EXPECTED["halving"].judge(float(np.mean(halved))),
        EXPECTED["arrivals"].judge(float(np.mean(together))),
    ]


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure; fast and full are the same."""
    session = Session("themis/fig08", fast, out, seed)
    options = WorkloadOptions(seed=seed)
    one, two = workload1(options), workload2(options)
    names = ("Workload 1", "Workload 2")
    gpus = session.table(cdf_frame(dict(zip(names, (gpus_per_job(one), gpus_per_job(two)), strict=True))), "a")
    jobs = session.table(cdf_frame(dict(zip(names, (jobs_per_app(one), jobs_per_app(two)), strict=True))), "b")
    with canvas(1, 2, width=2.8, height=2.3) as (figure, axes):
        for ax, frame, label in zip(axes[0], (gpus, jobs), ("GPUs of a job", "jobs of an app"), strict=True):
            draw_cdfs(ax, frame, (BLUE, VERMILLION))
            ax.set(xlabel=label, xlim=(0, None))
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2, fontsize=7)
        session.figure(figure)
    return session.finish(judged(one, two), notes=OPEN)


OPEN = (
    *NOTES,
    "Workload 2's jobs have 2, 4 or 8 GPUs, an app's all the same: the figure's numbers are not in the text",
    "Workload 2's apps have the largest power of two of jobs that Workload 1's leave room for, and as much GPU time",
)

if __name__ == "__main__":
    main("themis/fig08")
