"""Figure 10 (Themis): finish-time fairness of all policies on Workload 2."""

from __future__ import annotations

from pathlib import Path

from ..figures import main
from ..report import Progress, Report, quiet
from .experiments.fairness import EXPECTED, make

__all__ = ["EXPECTED", "run"]


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure. Fast: two seeds instead of eight."""
    return make("themis/fig10", 2, fast, out, seed, progress)


if __name__ == "__main__":
    main("themis/fig10")
