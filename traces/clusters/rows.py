"""Rows of a cluster's CSV tables, with or without a header. Each cell knows its line and column, for messages."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...errors import InputError
from ..files.text import Header, read_header, require_columns, text_lines, translated_errors
from .jobs import Problems

__all__ = ["CellRow", "table_rows"]

LARGEST = 1e12
"""Beyond any count, time or share in a cluster's log; products of such numbers are finite."""


class CellRow:
    """A row: its cells by the names of their columns; what is wrong with them goes to `problems`."""

    __slots__ = ("_cells", "_columns", "_where", "problems")

    def __init__(self, where: str, columns: dict[str, int], cells: list[str], problems: Problems) -> None:
        self._where, self._columns, self._cells, self.problems = where, columns, cells, problems

    def blame(self, column: str, what: str) -> None:
        """Note a problem with one cell."""
        self.problems.add(self._where, f"column {column!r} {what}", self.text(column))

    def text(self, column: str) -> str:
        """The text of a cell; empty if there is no such column."""
        k = self._columns.get(column)
        return "" if k is None else self._cells[k].strip()

    def name(self, column: str) -> str:
        """The text of a cell that must not be empty."""
        text = self.text(column)
        if not text:
            self.blame(column, "is empty")
        return text

    def number(self, column: str, *, whole: bool = False) -> float | None:
        """A cell that is a number >= 0; None if it is empty, or no such number: then it is complained of."""
        text = self.text(column)
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and value >= 0) or (whole and value != math.floor(value)):
            self.blame(column, f"must be {'a whole number' if whole else 'a finite number'} >= 0")
            return None
        if value > LARGEST:
            self.blame(column, f"must be no more than {LARGEST:g}")
            return None
        return value


def table_rows(
    path: Path, required: Sequence[str], problems: Problems, *, names: Sequence[str] = (), optional: Sequence[str] = ()
) -> Iterator[CellRow]:
    """The rows of a table.

    Parameters
    ----------
    path : Path
        The table's file, gzipped or not.
    required, optional : sequence of str
        Columns that it must, and may have; others are passed over.
    problems : Problems
        Where wrong widths go, and what the rows' users complain of.
    names : sequence of str
        What its columns are if it has no header: when none of them stands in the first line.

    Raises
    ------
    InputError
        If it cannot be read, is empty, or columns are missing.
    """
    header = Header(tuple(names), 0, (), ",") if names and _headless(path, names) else read_header(path)
    require_columns(path, header, tuple(required))
    columns = {name: header.columns.index(name) for name in (*required, *optional) if name in header.columns}
    width = len(header.columns)
    with translated_errors(path):
        reader = csv.reader(text_lines(path))
        try:
            for cells in reader:
                if not cells or reader.line_num <= header.line:
                    continue
                where = f"{path}:{reader.line_num}"
                if len(cells) != width:
                    problems.add(where, f"expected {width} columns", f"{len(cells)} columns")
                    continue
                yield CellRow(where, columns, cells, problems)
        except csv.Error as error:
            raise InputError(f"{path}:{reader.line_num}: is no CSV ({error})") from None


def _headless(path: Path, names: Sequence[str]) -> bool:
    """Whether the first line has none of the names. A row of data may have a cell twice, unlike a header."""
    with translated_errors(path):
        first = next(text_lines(path), "")
    return bool(first.strip()) and not any(cell.strip() in names for cell in first.split(","))
