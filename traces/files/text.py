"""Delimited text files: plain or gzipped, with or without BOM, LF or CRLF; their headers, and what they may lack."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from ...errors import InputError
from ...files import readable

__all__ = [
    "Header",
    "TraceWarning",
    "line_count",
    "open_bytes",
    "read_header",
    "require_columns",
    "text_lines",
    "translated_errors",
]

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


class TraceWarning(UserWarning):
    """Something about a trace that its reader should know, and that is no error."""


@dataclass(frozen=True)
class Header:
    """The first lines of a delimited file.

    Parameters
    ----------
    columns : tuple of str
        Names of the columns, stripped of surrounding space.
    line : int
        Line of the header, counted from 1.
    comments : tuple of str
        The lines before it that begin with ``#``, without that sign.
    delimiter : str
        The character between columns.
    """

    columns: tuple[str, ...]
    line: int
    comments: tuple[str, ...]
    delimiter: str


@contextmanager
def open_bytes(path: Path) -> Generator[BinaryIO, None, None]:
    """The content of `path` as a binary stream, unpacked if it is gzip (by its first bytes, not its name)."""
    with open(readable(path), "rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        if not packed:
            yield raw
            return
        with gzip.GzipFile(fileobj=raw) as unpacked:
            yield cast(BinaryIO, unpacked)


def text_lines(path: Path) -> Iterator[str]:
    """The lines of `path` with their ends; bytes that are no UTF-8 come as U+FFFD."""
    with open_bytes(path) as stream:
        yield from io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline="")


def line_count(path: Path) -> int:
    """Whole lines that can be read from `path` before it ends or breaks off."""
    count = 0
    try:
        for line in text_lines(path):
            count += line.endswith("\n")
    except (EOFError, zlib.error, gzip.BadGzipFile):
        return count
    return count


@contextmanager
def translated_errors(path: Path) -> Generator[None, None, None]:
    """Turn what the operating system, gzip and the decoder raise into an `InputError` that names the file."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a folder; expected a file") from None
    except PermissionError:
        raise InputError(f"{path}: may not be read (permission denied)") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(
            f"{path}: the gzip file is truncated or damaged after {line_count(path)} whole lines ({error}); "
            "fetch or write it again"
        ) from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text ({error.reason} at byte {error.start} of its block)") from None


def read_header(path: Path, delimiter: str = ",") -> Header:
    """The header of a delimited file.

    Raises
    ------
    InputError
        If the file cannot be read, is empty, or names a column twice.
    """
    comments: list[str] = []
    with translated_errors(path), open_bytes(path) as stream:
        for number, raw in enumerate(stream, start=1):
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            if line.startswith("#"):
                comments.append(line[1:].strip())
            elif line.strip():
                try:
                    columns = tuple(name.strip() for name in next(csv.reader([line], delimiter=delimiter)))
                except csv.Error as error:
                    raise InputError(f"{path}:{number}: is no header line ({error})") from None
                twice = [name for name in columns if columns.count(name) > 1]
                if twice:
                    raise InputError(f"{path}:{number}: column {twice[0]!r} appears twice")
                return Header(columns, number, tuple(comments), delimiter)
    raise InputError(f"{path}: the file is empty; expected a header line")


def require_columns(path: Path, header: Header, required: tuple[str, ...], optional: str = "") -> None:
    """Raise an `InputError` that names all missing columns and what the header holds instead."""
    missing = [name for name in required if name not in header.columns]
    if not missing:
        return
    where = f"{path}:{header.line}"
    for other, plural in DELIMITERS.items():
        split = [part.strip() for part in header.columns[0].split(other)] if len(header.columns) == 1 else []
        if len(split) > 1:
            raise InputError(
                f"{where}: columns look separated by {plural} (got {header.columns[0][:80]!r}); expected "
                f"{DELIMITERS.get(header.delimiter, repr(header.delimiter))}; read with delimiter={other!r}"
            )
    found = ", ".join(header.columns[:12]) + (" …" if len(header.columns) > 12 else "")
    shown = ", ".join(repr(name) for name in missing[:5]) + (" …" if len(missing) > 5 else "")
    raise InputError(
        f"{where}: missing column{'s' if len(missing) > 1 else ''} {shown}; found: {found}; "
        f"expected: {', '.join(required[:6])}{' …' if len(required) > 6 else ''}{optional}"
    )
