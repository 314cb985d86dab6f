"""Figure 4 (Themis): GPU time of a task."""

from __future__ import annotations

from pathlib import Path

from ...simulator.sharing import WorkloadOptions, workload1
from ...simulator.sharing.workload.statistics import task_s
from ..figures import main
from ..report import Progress, Report, Session, quiet
from .experiments.spread import Spread

SPREAD = Spread(
    "tasks", "GPU hours", "Fig. 4", 3.75, "{:.2f}",
    "tasks of an app are alike, so two standard errors are those of 85 apps, a factor of 1.7",
)  # fmt: skip
EXPECTED = SPREAD.expected
judged = SPREAD.judged


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure; fast and full are the same."""
    session = Session("themis/fig04", fast, out, seed)
    time = task_s(workload1(WorkloadOptions(seed=seed))) / 3600
    return SPREAD.report(session, "tasks of 85 apps", time, "GPU hours of a task")


if __name__ == "__main__":
    main("themis/fig04")
