"""Table 2 (TeraPipe; thesis 2.2): latencies of the main experiments."""

from __future__ import annotations

from pathlib import Path

from ..figures import main
from ..report import Progress, Report, quiet
from .latencies import expected, make

EXPECTED = expected("2")


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the table; fast and full are the same. Nothing in it is random."""
    return make("terapipe/table2", "2", EXPECTED, fast, out, seed)


if __name__ == "__main__":
    main("terapipe/table2")
