"""Figure 4.3: throughput of a decode step under three parallelisms over the decode length, by arithmetic and a link."""

from __future__ import annotations

from pathlib import Path

from ..figures import main
from ..report import Progress, Report, Session, quiet
from .decode_steps import outputs
from .fig02 import EXPECTED, over_lengths

__all__ = ["EXPECTED", "run"]


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure: means over draws of the lengths, fewer of them if fast."""
    return over_lengths(Session("cache_parallel/fig03", fast, out, seed), outputs, fast, seed)


if __name__ == "__main__":
    main("cache_parallel/fig03")
