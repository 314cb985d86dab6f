"""Figure 11 (Themis): GPU time of Workload 1 under all policies."""

from __future__ import annotations

from pathlib import Path

from ..figures import main
from ..report import Progress, Report, quiet
from .experiments import gpu_time
from .experiments.gpu_time import make

EXPECTED = {"similar": gpu_time.EXPECTED["similar"]}


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure. Fast: two seeds instead of eight."""
    return make("themis/fig11", 1, fast, out, seed, progress)


if __name__ == "__main__":
    main("themis/fig11")
