"""Figure 12 (Themis): GPU time of Workload 2 under all policies."""

from __future__ import annotations

from pathlib import Path

from ..figures import main
from ..report import Progress, Report, quiet
from .experiments import gpu_time
from .experiments.gpu_time import make

EXPECTED = {key: claim for key, claim in gpu_time.EXPECTED.items() if key != "similar"}


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure. Fast: two seeds instead of eight."""
    return make("themis/fig12", 2, fast, out, seed, progress)


if __name__ == "__main__":
    main("themis/fig12")
