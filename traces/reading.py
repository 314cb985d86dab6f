"""Reading and writing traces of any format: `read` looks at the file, `write` at its name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..files import readable
from .azure.maf1 import IDS, Azure2019Options, read_azure2019
from .azure.maf2 import COLUMNS, read_azure2021
from .files.csv import read_csv, write_csv
from .files.parquet import read_parquet, write_parquet
from .files.tabular import Options
from .files.text import read_header, translated_errors
from .llm import FORMATS as LOGS
from .llm import sniff_log
from .llm.as_trace import LogOptions, read_logged
from .trace import Trace

__all__ = ["FORMATS", "read", "sniff", "write"]

FORMATS: dict[str, tuple[Callable[..., Trace], type[Options | Azure2019Options | LogOptions] | None]] = {
    "csv": (read_csv, Options),
    "parquet": (read_parquet, Options),
    "azure2019": (read_azure2019, Azure2019Options),
    "azure2021": (read_azure2021, None),
    **{name: (partial(read_logged, name), LogOptions) for name in LOGS},
}
"""Format -> its reader, and the record of the options that the reader takes as ``options``."""
ALIASES = {"maf1": "azure2019", "maf2": "azure2021"}


def read(path: str | Path | Sequence[str | Path], format: str | None = None, **options: Any) -> Trace:
    """Read a trace.

    Parameters
    ----------
    path : path or sequence of paths
        A file, gzipped or not; for the Azure Functions traces also a folder or several files.
    format : str, optional
        ``"csv"``, ``"parquet"``, ``"azure2019"`` (MAF1) or ``"azure2021"`` (MAF2); of language-model requests
        ``"azure-llm"`` (2023 and 2024), ``"burstgpt"``, ``"mooncake"`` or ``"vllm-bench"`` (a detailed result of vLLM's
        benchmark). If not given, the file's content tells.
    **options
        For every format: ``models`` (sequence of names), ``slo`` (as in `Trace`; otherwise the file's own, or none),
        ``start`` and ``stop`` (seconds: only requests that arrive in between, times counted from `start`) and
        ``progress`` (called with bytes, or rows, read and in all).

        For CSV and Parquet: ``sort`` (put requests in order of arrival; nothing else is mended), ``ignore_unknown``
        (leave out requests of models that are not among `models`, and say how many), ``unit`` of the arrivals
        (``"s"``, ``"ms"``, ``"us"``, ``"ns"``), ``columns`` (field -> its name in the file), and ``delimiter`` (CSV).

        For the Azure Functions traces: ``assign`` and ``seed``; for 2019 also ``spread`` and ``thin``: see
        `read_azure2019` and `read_azure2021`.

        For language-model requests: ``sort``; ``models`` is one name, of the model that all requests are for.

    Returns
    -------
    Trace

    Raises
    ------
    InputError
        (a ValueError) with file, line and column of what is wrong; or on an option that the format does not have.
    """
    name = sniff(path) if format is None else ALIASES.get(format, format)
    if name not in FORMATS:
        raise InputError(f"format: unknown format {format!r}; expected one of {', '.join((*FORMATS, *ALIASES))}")
    reader, record = FORMATS[name]
    rarer = [] if record is None else [field.name for field in fields(record)]
    allowed = [*rarer, *(p for p in inspect.signature(reader).parameters if p not in ("path", "options"))]
    for option in options:
        if option not in allowed:
            raise InputError(f"read: format {name!r} has no option {option!r}; options: {', '.join(allowed)}")
    if record is not None:
        options["options"] = record(**{option: options.pop(option) for option in rarer if option in options})
    return reader(path, **options)


def sniff(path: str | Path | Sequence[str | Path]) -> str:
    """The format of a file, from its first bytes and its header.

    Raises
    ------
    InputError
        If it cannot be read, or its columns are of no known format.
    """
    if not isinstance(path, str | Path):
        if not path:
            raise InputError("read: expected at least one file")
        return sniff(path[0])
    file = Path(path)
    if file.is_dir():
        return "azure2019"
    with translated_errors(file), open(readable(file), "rb") as stream:
        if stream.read(4) == b"PAR1":
            return "parquet"
    log = sniff_log(file)
    if log is not None:
        return log
    columns = set(read_header(file).columns)
    if columns & set(IDS):
        return "azure2019"
    if columns >= set(COLUMNS) or {"end_timestamp", "func"} & columns:
        return "azure2021"
    return "csv"


def write(trace: Trace, path: str | Path) -> Path:
    """Write a trace as the name says: ``.csv``, ``.csv.gz`` or ``.parquet``. `read` gives the same trace back.

    Raises
    ------
    InputError
        On another ending, or if Parquet is asked for without pyarrow.
    """
    name = Path(path).name
    if name.endswith((".csv", ".csv.gz")):
        return write_csv(trace, path)
    if name.endswith(".parquet"):
        return write_parquet(trace, path)
    raise InputError(f"{path}: expected a name that ends in .csv, .csv.gz or .parquet")
