"""Table 4 (TeraPipe; thesis 2.4): latencies of longer sequences."""

from __future__ import annotations

from pathlib import Path

from ..figures import main
from ..report import Progress, Report, quiet
from .latencies import expected, make

EXPECTED = expected("4")


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the table; fast and full are the same. Nothing in it is random."""
    return make("terapipe/table4", "4", EXPECTED, fast, out, seed)


if __name__ == "__main__":
    main("terapipe/table4")
