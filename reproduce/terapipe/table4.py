"""Table 2.4 (TeraPipe): latencies of longer sequences."""

from __future__ import annotations

from pathlib import Path

from ..figures import main
from ..report import Progress, Report, quiet
from .latencies import expected, make

TITLE = "TeraPipe: latencies, longer sequences"

EXPECTED = expected("2.4")


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the table; fast and full are the same. Nothing in it is random."""
    return make("table2_4", TITLE, "2.4", EXPECTED, fast, out, seed)


if __name__ == "__main__":
    main("table2_4")
