"""One more column of a table of requests, as text."""

from __future__ import annotations

# pandas and pyarrow bring no type stubs.
# pyright: reportMissingTypeStubs=false
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...files import readable
from .cells import TEXT
from .chunks import read_chunks
from .text import read_header, translated_errors

__all__ = ["text_column"]

CHUNK = 200_000  # rows read at a time, as of CSV traces


def text_column(path: Path, name: str, kind: str) -> npt.NDArray[Any] | None:
    """The cells of a column of a CSV or Parquet file; None where it has no such column.

    Raises
    ------
    InputError
        On an empty cell.
    """
    if kind == "parquet":
        import pyarrow.parquet as parquet

        library: Any = parquet
        with translated_errors(path):
            source = library.ParquetFile(readable(path))
            if name not in source.schema_arrow.names:
                return None
            cells = source.read([name]).column(0).to_pylist()
        empty = next((row for row, cell in enumerate(cells) if cell is None or str(cell) == ""), None)
        if empty is not None:
            raise InputError(f"{path}: row {empty}: column {name!r} is empty")
        return np.array([str(cell) for cell in cells])
    header = read_header(path)
    if name not in header.columns:
        return None
    parts: list[Any] = []
    for chunk in read_chunks(path, header, {name: TEXT}, CHUNK):
        table: Any = chunk
        parts.append(table[name].to_numpy())
    return np.concatenate(parts)
