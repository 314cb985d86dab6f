"""Figure 16 (Themis): GPU time by the share of network-intensive apps."""

from __future__ import annotations

from pathlib import Path

from ..figures import main
from ..report import Progress, Report, quiet
from .experiments.intensive import TIME, make

EXPECTED = TIME


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure. Fast: one seed and three shares instead of eight and six."""
    return make("themis/fig16", "gpu_hours", fast, out, seed, progress)


if __name__ == "__main__":
    main("themis/fig16")
