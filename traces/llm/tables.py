"""Logs in CSV: Azure's LLM inference traces of 2023 and 2024, and BurstGPT."""

from __future__ import annotations

# pandas brings no type stubs.
# pyright: reportMissingTypeStubs=false
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError
from ..columns import FloatArray, LongArray
from ..files.cells import COUNT, TEXT, TIME, Kind
from ..files.chunks import Progress, read_chunks
from ..files.complaints import lines_where
from ..files.text import Header, read_header, require_columns
from .log import TokenLog, made

__all__ = ["AZURE", "BURSTGPT", "read_azure", "read_burstgpt"]

AZURE = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
"""github.com/Azure/AzurePublicDataset, AzureLLMInferenceDataset2023.md and …2024.md (CC-BY)."""
BURSTGPT = ("Timestamp", "Model", "Request tokens", "Response tokens", "Log Type")
"""github.com/HPMLL/BurstGPT (CC-BY-4.0), releases 1 and 2; its Total tokens, Session ID and Elapsed time are not used:
no column says whether a prompt holds the turns before it."""
CHUNK = 200_000  # rows read at a time: some tens of megabytes, and large enough that pandas' overhead does not count


def read_azure(path: Path, *, sort: bool = False, progress: Progress | None = None) -> TokenLog:
    """Azure's traces: ``TIMESTAMP`` (date and time, with or without a zone), ``ContextTokens, GeneratedTokens``."""
    kinds = {AZURE[0]: TEXT, AZURE[1]: COUNT, AZURE[2]: COUNT}
    header, (stamps, prompts, outputs) = _columns(path, kinds, progress)
    import pandas as pd

    library: Any = pd
    times = library.to_datetime(stamps, errors="coerce", format="ISO8601", utc=True)
    if bool(times.isna().any()):
        raise InputError(lines_where(path, header, AZURE[0], _no_date))
    seconds = (times - times[0]).total_seconds().to_numpy()
    log = TokenLog(seconds, prompts.astype(np.int64), outputs.astype(np.int64))
    return made(path, _in_order(path, header, AZURE[0], log, sort, lambda cell: _seconds(library, cell)), "row")


def read_burstgpt(path: Path, *, sort: bool = False, progress: Progress | None = None) -> TokenLog:
    """BurstGPT: ``Timestamp`` (seconds), ``Model, Request tokens, Response tokens, Log Type``.

    The class of a request is its log type: ``conversation`` or ``api``.
    """
    kinds = {BURSTGPT[0]: TIME, BURSTGPT[1]: TEXT, BURSTGPT[2]: COUNT, BURSTGPT[3]: COUNT, BURSTGPT[4]: TEXT}
    header, (seconds, asked, prompts, outputs, types) = _columns(path, kinds, progress)
    import pandas as pd

    library: Any = pd
    model, models = library.factorize(asked)
    kind, names = library.factorize(types)
    log = TokenLog(
        seconds, prompts.astype(np.int64), outputs.astype(np.int64),
        model.astype(np.int64), tuple(map(str, models)),
        kind.astype(np.int64), tuple(str(name).removesuffix(" log").strip().lower() for name in names),
    )  # fmt: skip
    return made(path, _in_order(path, header, BURSTGPT[0], log, sort, float), "row")


def _columns(path: Path, kinds: dict[str, Kind], progress: Progress | None) -> tuple[Header, list[Any]]:
    """The columns of a file, every cell checked."""
    header = read_header(path)
    require_columns(path, header, tuple(kinds))
    parts: list[list[Any]] = [[] for _ in kinds]
    for chunk in read_chunks(path, header, kinds, CHUNK, progress):
        table: Any = chunk
        for part, name in zip(parts, kinds, strict=True):
            part.append(table[name].to_numpy())
    if not parts[0] or not sum(map(len, parts[0])):
        raise InputError(f"{path}: holds no request")
    return header, [np.concatenate(part) for part in parts]


def _in_order(
    path: Path, header: Header, name: str, log: TokenLog, sort: bool, seconds: Callable[[str], float]
) -> TokenLog:
    """The log in order of arrival: as it is, or, if that is asked for, sorted."""
    times: FloatArray = log.arrival
    if bool((times[1:] >= times[:-1]).all()):
        return log
    if sort:
        order: LongArray = np.argsort(times, kind="stable")
        return log.rows(order)
    last = -np.inf

    def earlier(cell: str) -> str | None:
        nonlocal last
        before, last = last, seconds(cell)
        return "is earlier than the line before; --sort of meshwright trace convert mends it" if last < before else None

    raise InputError(lines_where(path, header, name, earlier))


def _seconds(library: Any, cell: str) -> float:
    return float(library.to_datetime(cell, format="ISO8601", utc=True).timestamp())


def _no_date(cell: str) -> str | None:
    import pandas as pd

    library: Any = pd
    stamp = library.to_datetime(cell, errors="coerce", format="ISO8601", utc=True)
    return "must be a date and time" if library.isna(stamp) else None
