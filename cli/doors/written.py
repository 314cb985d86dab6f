"""What a verb wrote, as lines for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

__all__ = ["written_lines"]

MANY = 20
"""Files that are named one by one; of more, those in folders of the one that was asked for are counted. A guess."""


def written_lines(paths: Sequence[Path], out: Path | None) -> list[str]:
    """What was written, a line each; of a folder with many files its own folders, each with its number of files."""
    if out is None or len(paths) <= MANY:
        return [str(path) for path in paths]
    parts = [path.relative_to(out).parts if path.is_relative_to(out) else () for path in paths]
    counted = Counter(part[0] for part in parts if len(part) > 1)
    folders = [f"{out / name} ({count} files)" for name, count in sorted(counted.items())]
    return [*folders, *(str(path) for path, part in zip(paths, parts, strict=True) if len(part) <= 1)]
