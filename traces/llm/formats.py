"""Which format a log has, and its reader."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError
from ...files import readable
from ..files.chunks import Progress
from ..files.tabular import check_interval
from ..files.text import read_header, text_lines, translated_errors
from .lines import BENCH, MOONCAKE, read_bench, read_mooncake_log
from .log import TokenLog
from .tables import AZURE, BURSTGPT, read_azure, read_burstgpt

__all__ = ["FORMATS", "LogFormat", "read_log", "sniff_log"]


@dataclass(frozen=True)
class LogFormat:
    """A format of published logs.

    Parameters
    ----------
    fields : tuple of str
        Columns or keys that it has.
    telling : frozenset of str
        Those of which one is enough to know it by.
    read : callable
        ``read(path, sort=…, progress=…)``.
    """

    fields: tuple[str, ...]
    telling: frozenset[str]
    read: Callable[..., TokenLog]


def _mooncake(path: Path, *, sort: bool, progress: Progress | None) -> TokenLog:
    return read_mooncake_log(path, sort=sort)


def _bench(path: Path, *, sort: bool, progress: Progress | None) -> TokenLog:
    return read_bench(path)


FORMATS: Mapping[str, LogFormat] = {
    "azure-llm": LogFormat(AZURE, frozenset(AZURE[1:]), read_azure),
    "burstgpt": LogFormat(BURSTGPT, frozenset(BURSTGPT[2:4]), read_burstgpt),
    "mooncake": LogFormat(MOONCAKE, frozenset(MOONCAKE[1:]), _mooncake),
    "vllm-bench": LogFormat(BENCH, frozenset(BENCH), _bench),
}
"""Name -> format. The first two are CSV, the others JSON."""
SNIFFED = 1 << 20
"""Characters of a JSON file in which its first keys are looked for: a result of vLLM's is one long line."""


def sniff_log(path: str | Path) -> str | None:
    """The format of a log, by its header or its first keys; None if it is none of `FORMATS`.

    Raises
    ------
    InputError
        If it cannot be read.
    """
    file = Path(path)
    with translated_errors(file), open(readable(file), "rb") as raw:
        if raw.read(4) == b"PAR1":
            return None
    with translated_errors(file):
        first = next((line for line in text_lines(file) if line.strip()), "")
    if first.lstrip().startswith("{"):
        return _by_keys(file, first)
    if first.lstrip().startswith("[") or not first:
        return None
    columns = set(read_header(file).columns)
    return next((name for name in ("azure-llm", "burstgpt") if columns & FORMATS[name].telling), None)


def _by_keys(file: Path, first: str) -> str | None:
    """Of JSON: one object on the first line tells by its keys, one over many lines by the text of its beginning."""
    try:
        said: Any = json.loads(first)
        keys = set(said)
    except json.JSONDecodeError:
        with translated_errors(file):
            text = "".join(text_lines(file))[:SNIFFED]
        keys = {name for each in FORMATS.values() for name in each.fields if f'"{name}"' in text}
    return next((name for name in ("vllm-bench", "mooncake") if keys & FORMATS[name].telling), None)


def read_log(
    path: str | Path, format: str | None = None, *, start: float = 0.0, stop: float | None = None,
    sort: bool = False, progress: Progress | None = None,
) -> TokenLog:  # fmt: skip
    """Read a published log of language-model requests.

    Parameters
    ----------
    path : path
        The file, gzipped or not.
    format : str, optional
        A name of `FORMATS`; without it the file's content tells.
    start, stop : float
        Only requests that arrive in ``[start, stop)``, seconds after the first one; times are counted from `start`.
    sort : bool
        Whether requests are put in order of arrival; else a file that is out of order is an error.
    progress : callable, optional
        Called with bytes read and bytes in all, of CSV.

    Raises
    ------
    InputError
        On an unknown format, or a file that is not as its format is published: file, line, column, what was expected,
        and which format it was taken for.
    """
    check_interval(start, stop)
    name = format or sniff_log(path)
    if name is None or name not in FORMATS:
        known = "; ".join(f"{known} ({', '.join(each.fields)})" for known, each in FORMATS.items())
        what = f"unknown format {name!r}" if name else "is no log of language-model requests"
        raise InputError(f"{path}: {what}; known: {known}")
    try:
        log = FORMATS[name].read(Path(path), sort=sort, progress=progress)
    except InputError as error:
        raise InputError(f"{error}; read as {name}: {', '.join(FORMATS[name].fields)}") from None
    end = np.inf if stop is None else stop
    if start == 0 and log.arrival[-1] < end:
        return log
    low, high = (int(place) for place in np.searchsorted(log.arrival, [start, end]))
    if low >= high:
        raise InputError(f"{path}: no request arrives in [{start:g}, {end:g}) s; the last one at {log.arrival[-1]:g} s")
    some = log.rows(np.arange(low, high))
    return replace(some, arrival=some.arrival - start)
