"""Traces as Parquet: needs pyarrow, the extra ``parquet``."""

from __future__ import annotations

# pandas, scipy and pyarrow bring no type stubs.
# pyright: reportMissingTypeStubs=false
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError, install_hint
from ...files import readable, whole_file
from ..trace import Trace
from .cells import Kind
from .chunks import Progress
from .complaints import listed
from .tabular import Options, Rows, build, layout
from .text import translated_errors

__all__ = ["read_parquet", "write_parquet"]

CHUNK = 1_000_000  # rows read at a time: columns are binary here, so that is again some tens of megabytes
MODELS_KEY = b"meshwright.models"


def _pyarrow(path: Path) -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError(
            f"{path}: Parquet needs pyarrow, which is not installed; {install_hint('parquet')}, or use CSV"
        ) from None
    return pyarrow, pyarrow.parquet


def read_parquet(path: str | Path, options: Options | None = None, *, progress: Progress | None = None) -> Trace:
    """Read requests from Parquet, a batch of rows at a time. Rows are counted from 0 in messages."""
    options = options or Options()
    file = Path(path)
    arrow, parquet = _pyarrow(file)
    with translated_errors(file):
        try:
            source = parquet.ParquetFile(readable(file))
            found = source.schema_arrow.names
            shape, required = layout(found, options)
            missing = [name for name in required if name not in found]
            if missing:
                raise InputError(
                    f"{file}: missing column{'s' if len(missing) > 1 else ''} "
                    f"{', '.join(map(repr, missing))}; found: {', '.join(found[:12])}; expected: "
                    f"{', '.join(required)}; another name: columns={{'arrival': 'its name', …}}"
                )
            metadata: dict[bytes, bytes] = source.schema_arrow.metadata or {}
            stored = metadata.get(MODELS_KEY)
            rows, total, done = Rows(), source.metadata.num_rows, 0
            for batch in source.iter_batches(CHUNK, columns=list(shape.column.values())):
                cells = {k: _cells(arrow, batch.column(c), shape.kinds[c]) for k, c in shape.column.items()}
                if not all(shape.kinds[c].holds(cells[k]) for k, c in shape.column.items()):
                    raise InputError(_complaints(file, source, shape.kinds))
                rows.add(cells)
                done += batch.num_rows
                if progress is not None:
                    progress(done, total)
        except arrow.ArrowInvalid as error:
            raise InputError(f"{file}: is no whole Parquet file, or a column is no number ({error})") from None

    def blame(name: str, wrong: Callable[[str], str | None], more: str) -> str:
        return _rows_where(file, source, {shape.column[name]: wrong}, more)

    return build(
        rows,
        str(file),
        blame,
        options,
        only_model=shape.only_model,
        stored_models=None if stored is None else json.loads(stored),
    )


def _cells(arrow: Any, column: Any, kind: Kind) -> Any:
    """A column as numpy: names and ids as text with "" for null, numbers as float64 with NaN for null."""
    if arrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if kind.dtype == "str":
        return np.array(["" if cell is None else str(cell) for cell in column.to_pylist()], dtype=object)
    if kind.dtype == "int64" and column.null_count == 0:
        return column.cast(arrow.int64()).to_numpy(zero_copy_only=False)
    return column.cast(arrow.float64()).to_numpy(zero_copy_only=False)


def _complaints(path: Path, source: Any, kinds: Mapping[str, Kind]) -> str:
    return _rows_where(path, source, {name: kind.wrong for name, kind in kinds.items()}, "")


def _rows_where(path: Path, source: Any, wrong: Mapping[str, Callable[[str], str | None]], more: str) -> str:
    """The rows on which some column is wrong: the first five, and how many there are."""
    problems: list[str] = []
    total = row = 0
    for batch in source.iter_batches(CHUNK, columns=list(wrong)):
        for cells in batch.to_pylist():
            for name, fault_of in wrong.items():
                text = "" if cells[name] is None else str(cells[name])
                fault = fault_of(text)
                if fault is not None:
                    total += 1
                    if len(problems) < 5:
                        problems.append(f"{path}: row {row}: column {name!r} {fault} (got {text[:60]!r})")
            row += 1
    return listed(problems, total, more)


def write_parquet(trace: Trace, path: str | Path) -> Path:
    """Write `trace` as Parquet; the models and their order go into the file's metadata."""
    target = Path(path)
    arrow, parquet = _pyarrow(target)
    columns = {
        "arrival": arrow.array(trace.arrival),
        "model": arrow.DictionaryArray.from_arrays(arrow.array(trace.model), arrow.array(trace.models)),
        "slo": arrow.array(trace.slo),
    }
    for name in ("prompt_tokens", "output_tokens", "prefix"):
        column = getattr(trace, name)
        if column is not None:
            columns[name] = arrow.array(column)
    table = arrow.table(columns)
    metadata = {MODELS_KEY: json.dumps(list(trace.models)).encode()}
    with whole_file(target) as temporary:
        parquet.write_table(table.replace_schema_metadata(metadata), temporary)
    return target
