"""The slow path: go through a file that is known to be wrong, line by line, and say what is wrong."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from .cells import Kind
from .text import Header, text_lines

__all__ = ["complaints", "lines_where", "listed"]

SHOWN = 5  # lines that are listed: one slip repeats on every line, and five show its pattern


def _rows(path: Path, header: Header) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of every row after the header; blank lines are left out."""
    lines = text_lines(path)
    for _ in range(header.line):
        next(lines, "")
    reader = csv.reader(lines, delimiter=header.delimiter)
    for cells in reader:
        if cells:
            yield header.line + reader.line_num, cells


def listed(problems: list[str], total: int, more: str = "") -> str:
    """List `problems` one a line; if not all are shown, a last line says how many there are."""
    tail = f"\n… {total} problems in all, the first {len(problems)} shown" if total > len(problems) else ""
    return "\n".join(problems) + tail + more


def complaints(path: Path, header: Header, kinds: Mapping[str, Kind], reason: str = "") -> str:
    """Everything that is wrong with the rows of `path`: the first five, and how many there are.

    `reason` is what the fast parser said; it is the message if no single cell is to blame.
    """
    position = [(header.columns.index(name), name, kind) for name, kind in kinds.items()]
    width = len(header.columns)
    problems: list[str] = []
    total = 0
    try:
        for line, cells in _rows(path, header):
            found = []
            if len(cells) > width:
                found = [f"{path}:{line}: expected {width} columns (got {len(cells)})"]
            for i, name, kind in position:
                wrong = "is missing" if i >= len(cells) else kind.wrong(cells[i])
                if wrong is not None:
                    got = f" (got {cells[i][:60]!r})" if i < len(cells) else f" (the line has {len(cells)} columns)"
                    found.append(f"{path}:{line}: column {name!r} {wrong}{got}")
            total += len(found)
            problems += found[: SHOWN - len(problems)]
    except (csv.Error, EOFError, zlib.error, gzip.BadGzipFile) as error:
        total += 1
        problems.append(f"{path}: cannot be read to its end ({error})")
    if not problems:
        return f"{path}: cannot be parsed ({reason or 'a cell is of the wrong kind'})"
    return listed(problems, total)


def lines_where(path: Path, header: Header, column: str, wrong: Callable[[str], str | None], more: str = "") -> str:
    """The lines on which `wrong` finds fault with the cell of one column; it may remember what it saw before."""
    i = header.columns.index(column)
    problems: list[str] = []
    total = 0
    for line, cells in _rows(path, header):
        fault = wrong(cells[i])
        if fault is not None:
            total += 1
            if len(problems) < SHOWN:
                problems.append(f"{path}:{line}: column {column!r} {fault} (got {cells[i][:60]!r})")
    return listed(problems, total, more)
