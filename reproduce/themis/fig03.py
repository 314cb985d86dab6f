"""Figure 3 (Themis): GPU time of an app."""

from __future__ import annotations

from pathlib import Path

from ...simulator.sharing import WorkloadOptions, workload1
from ...simulator.sharing.workload.statistics import app_gpu_s
from ..figures import main
from ..report import Progress, Report, Session, quiet
from .experiments.spread import Spread

SPREAD = Spread(
    "apps", "GPU days", "Fig. 3", 11.5, "{:.1f}", "two standard errors of the median of 85 are a factor of 1.7",
    median_kind="calibrated", spread_kind="finding",
)  # fmt: skip
EXPECTED = SPREAD.expected
judged = SPREAD.judged


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure; fast and full are the same."""
    session = Session("themis/fig03", fast, out, seed)
    time = app_gpu_s(workload1(WorkloadOptions(seed=seed))) / 86400
    return SPREAD.report(session, "85 apps drawn", time, "GPU days of an app")


if __name__ == "__main__":
    main("themis/fig03")
