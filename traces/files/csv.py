"""Traces as CSV: the reader (streaming, gzip or not) and the writer."""

from __future__ import annotations

# pandas, scipy and pyarrow bring no type stubs.
# pyright: reportMissingTypeStubs=false
import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from ...errors import InputError
from ...files import whole_file
from ..trace import Trace
from .chunks import Progress, read_chunks
from .complaints import lines_where
from .tabular import Options, Rows, build, layout
from .text import Header, read_header, require_columns

__all__ = ["read_csv", "write_csv"]

CHUNK = 200_000  # rows read at a time: some tens of megabytes, and large enough that pandas' overhead does not count
MODELS_COMMENT = "meshwright models:"


def read_csv(
    path: str | Path, options: Options | None = None, *, delimiter: str = ",", progress: Progress | None = None
) -> Trace:
    """Read requests from delimited text with a header."""
    options = options or Options()
    file = Path(path)
    header = read_header(file, delimiter)
    shape, required = layout(header.columns, options)
    require_columns(file, header, required, optional="; another name: columns={'arrival': 'its name', …}")
    rows = Rows()
    for chunk in read_chunks(file, header, shape.kinds, CHUNK, progress):
        table: Any = chunk
        rows.add({name: table[column].to_numpy() for name, column in shape.column.items()})

    def blame(name: str, wrong: Callable[[str], str | None], more: str) -> str:
        return lines_where(file, header, shape.column[name], wrong, more)

    return build(
        rows,
        str(file),
        blame,
        options,
        only_model=shape.only_model,
        stored_models=_stored_models(file, header),
    )


def _stored_models(path: Path, header: Header) -> list[str] | None:
    for number, comment in enumerate(header.comments, start=1):
        if comment.startswith(MODELS_COMMENT):
            try:
                names: Any = json.loads(comment[len(MODELS_COMMENT) :])
            except json.JSONDecodeError as error:
                raise InputError(f"{path}:{number}: the list of models is no JSON ({error})") from None
            if not (isinstance(names, list) and all(isinstance(name, str) for name in cast("list[Any]", names))):
                raise InputError(f"{path}:{number}: expected a JSON list of model names (got {comment[:80]!r})")
            return cast("list[str]", names)
    return None


def write_csv(trace: Trace, path: str | Path) -> Path:
    """Write `trace` as CSV, gzipped if the name ends in ``.gz``; floats are written so that they read back exactly.

    Where the models are not simply those of the requests in order of first appearance, a comment line before the
    header lists them.
    """
    target = Path(path)
    _, first = np.unique(trace.model, return_index=True)
    appearing = [trace.models[trace.model[i]] for i in np.sort(first)]
    with whole_file(target) as temporary, open(temporary, "wb") as raw:
        if target.name.endswith(".gz"):
            # No name and no time in the header: the same trace gives the same bytes. Level 9 takes far longer for
            # little.
            with gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as packed:
                _write_rows(trace, cast(BinaryIO, packed), appearing)
        else:
            _write_rows(trace, raw, appearing)
    return target


def _write_rows(trace: Trace, stream: BinaryIO, appearing: list[str]) -> None:
    import pandas as pd

    text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
    if tuple(appearing) != trace.models:
        text.write(f"# {MODELS_COMMENT} {json.dumps(list(trace.models))}\n")
    fields = {
        name: column
        for name in ("slo", "prompt_tokens", "output_tokens", "prefix")
        if (column := getattr(trace, name)) is not None
    }
    if np.isinf(trace.slo).all():
        del fields["slo"]
    names = np.array(trace.models, dtype=object)
    # csv quotes a name for the sake of its own line end, but not for a lone carriage return.
    quoting = csv.QUOTE_NONNUMERIC if any("\r" in name for name in trace.models) else csv.QUOTE_MINIMAL
    for low in range(0, len(trace), CHUNK):
        rows = slice(low, low + CHUNK)
        block = {"arrival": trace.arrival[rows], "model": names[trace.model[rows]]}
        block |= {name: column[rows] for name, column in fields.items()}
        frame: Any = pd.DataFrame(block)
        frame.to_csv(text, index=False, header=low == 0, lineterminator="\n", quoting=quoting)
    text.detach()
