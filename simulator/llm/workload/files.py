"""Public workloads of language models as they are published, and plain lengths."""

from __future__ import annotations

# pandas brings no type stubs.
# pyright: reportMissingTypeStubs=false
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ....traces.files.cells import TOKENS
from ....traces.files.chunks import read_chunks
from ....traces.files.tabular import check_interval
from ....traces.files.text import read_header, require_columns
from ....traces.files.texts import text_column
from ....traces.llm import TokenLog, dataset_lengths, is_dataset, read_log, sniff_log
from ....traces.reading import read, sniff
from ....traces.trace import Trace
from .columns import numbered
from .requests import LLMTrace

__all__ = ["by_model", "read_azure_llm", "read_lengths", "read_mooncake", "read_requests"]

LENGTHS = (("prompt_tokens", "output_tokens"), ("num_prefill_tokens", "num_decode_tokens"))
"""What files of lengths call their two columns."""
CLASS = "class"
"""Column of a table of requests that says the class of each."""
KEYS = ("lora", "cache_salt")
"""Columns of a table of requests that tell keys and values apart: `LLMRequest.keys`."""
NONE = "none"
"""What stands in these columns for none."""
CHUNK = 200_000  # rows read at a time, as of traces


def read_requests(
    path: str | Path, *, format: str | None = None, start: float = 0.0, stop: float | None = None
) -> dict[str, LLMTrace]:
    """Requests of a file of any known format, model by model.

    Parameters
    ----------
    path : path
        A published log (Azure LLM, BurstGPT, Mooncake, a detailed result of vLLM's benchmark), or a table (CSV or
        Parquet) with ``arrival, model, prompt_tokens, output_tokens`` and, where there are any, ``class``, ``lora`` and
        ``cache_salt`` (names of the adapter and of the salt; ``none`` for none).
    format : str, optional
        ``"azure-llm"``, ``"burstgpt"``, ``"mooncake"``, ``"vllm-bench"``, ``"csv"`` or ``"parquet"``; without it the
        content tells.
    start, stop : float
        Only requests that arrive in between, seconds; times are counted from `start`.

    Returns
    -------
    dict of str to LLMTrace
        By the model that the table names; of a log, all requests under the empty name: what models it names are not
        those that will serve them.

    Raises
    ------
    InputError
        On a file that cannot be read: with file, line, column, what was expected, and the format it was taken for.
    """
    file = Path(path)
    log = sniff_log(file) if format is None else format
    if log is not None and log not in ("csv", "parquet"):
        return {"": _trace(read_log(file, log, start=start, stop=stop))}
    kind = format or sniff(file)
    if kind not in ("csv", "parquet"):
        raise InputError(
            f"{file}: is a log of functions ({kind}), without tokens; expected requests with prompt_tokens and "
            "output_tokens"
        )
    keys = {name: _names(text_column(file, name, kind)) for name in KEYS}
    found = by_model(read(file, kind), text_column(file, CLASS, kind), keys)
    if start == 0 and stop is None:
        return found
    check_interval(start, stop)
    inside = {name: _between(trace, start, stop) for name, trace in found.items()}
    if not any(inside.values()):
        raise InputError(f"{file}: no request arrives from {start:g} s on, before {stop} s")
    return {name: trace for name, trace in inside.items() if trace is not None}


def _names(cells: npt.NDArray[Any] | None) -> npt.NDArray[np.int64] | None:
    """Numbers of the names in a column, -1 for `NONE`; None without a column, or where it says nothing."""
    found = None if cells is None else numbered([None if cell == NONE else cell for cell in cells.astype(str).tolist()])
    return None if found is None else np.array(found, dtype=np.int64)


def by_model(
    trace: Trace,
    kinds: npt.NDArray[Any] | None = None,
    keys: Mapping[str, npt.NDArray[np.int64] | None] | None = None,
) -> dict[str, LLMTrace]:
    """The requests of a trace with token columns, model by model; those without requests are left out.

    Parameters
    ----------
    trace : Trace
        The trace.
    kinds : ndarray of str, optional
        The class of each request.
    keys : mapping of str to ndarray of int, optional
        Further columns of `LLMTrace`: ``lora``, ``cache_salt``.

    Raises
    ------
    InputError
        On a trace without tokens.
    """
    prompts, outputs = trace.prompt_tokens, trace.output_tokens
    if prompts is None or outputs is None:
        raise InputError("requests: the trace has no columns prompt_tokens and output_tokens; draw lengths for it")
    said: dict[str, Any] = {}
    column = None
    if kinds is not None:
        names, column = np.unique(kinds.astype(str), return_inverse=True)
        said["classes"] = tuple(names.tolist())
    found: dict[str, LLMTrace] = {}
    for index, name in enumerate(trace.models):
        rows = np.flatnonzero(trace.model == index)
        if len(rows):
            kind = None if column is None else column[rows]
            told = {name: c[rows] for name, c in (keys or {}).items() if c is not None}
            found[name] = LLMTrace(trace.arrival[rows], prompts[rows], outputs[rows], kind=kind, **told, **said)
    return found


def read_azure_llm(path: str | Path, *, start: float = 0.0, stop: float | None = None) -> LLMTrace:
    """Azure's LLM inference traces of 2023 and 2024 (CSV): ``TIMESTAMP, ContextTokens, GeneratedTokens``.

    Published at github.com/Azure/AzurePublicDataset (AzureLLMInferenceDataset2023.md), CC-BY.

    Parameters
    ----------
    path : path
        The file, gzipped or not.
    start, stop : float
        Only requests that arrive in between, seconds after the first one; times are counted from `start`.

    Raises
    ------
    InputError
        On a file that cannot be read, a column that is missing, a cell that is no time or count, or no row.
    """
    return _trace(read_log(path, "azure-llm", start=start, stop=stop))


def read_mooncake(path: str | Path, *, start: float = 0.0, stop: float | None = None) -> LLMTrace:
    """Mooncake's traces (JSON lines): ``timestamp`` (ms), ``input_length``, ``output_length``, ``hash_ids``.

    Each id stands for 512 prompt tokens with all that comes before them: requests with the same first ids share that
    prefix. Published at github.com/kvcache-ai/Mooncake, Apache-2.0.

    Parameters
    ----------
    path : path
        The file, gzipped or not.
    start, stop : float
        Only requests that arrive in between, seconds; times are counted from `start`.

    Raises
    ------
    InputError
        On a file that cannot be read, a line that is no such object, or no line.
    """
    return _trace(read_log(path, "mooncake", start=start, stop=stop))


def read_lengths(path: str | Path) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Prompt and output lengths of a file, to draw requests from (see `draw`); its times, if it has any, do not matter.

    A CSV with ``prompt_tokens, output_tokens``, or ``num_prefill_tokens, num_decode_tokens`` as in Vidur's processed
    traces (github.com/microsoft/vidur, MIT); a published log of any format; or a data set of vLLM's benchmark,
    ShareGPT's JSON or ``custom`` JSON lines, whose texts are counted at 4 characters a token.

    Raises
    ------
    InputError
        On a file that cannot be read, columns that are missing, or a cell that is no count.
    """
    file = Path(path)
    log = sniff_log(file)
    if log is not None:
        found = read_log(file, log, sort=log != "vllm-bench")
        return found.prompt_tokens, found.output_tokens
    if is_dataset(file):
        return dataset_lengths(file)
    header = read_header(file)
    names = next((pair for pair in LENGTHS if set(pair) <= set(header.columns)), LENGTHS[0])
    require_columns(file, header, names)
    parts: list[Any] = []
    for chunk in read_chunks(file, header, dict.fromkeys(names, TOKENS), CHUNK):
        table: Any = chunk
        parts.append(table[list(names)].to_numpy())
    if not sum(map(len, parts)):
        raise InputError(f"{file}: holds no request")
    both = np.concatenate(parts).astype(np.int64)
    return both[:, 0], both[:, 1]


def _between(trace: LLMTrace, start: float, stop: float | None) -> LLMTrace | None:
    """Requests of an interval, in time counted from its begin; None if there is none."""
    low, high = np.searchsorted(trace.arrival, [start, np.inf if stop is None else stop])
    return trace.select(slice(int(low), int(high))).at(trace.arrival[low:high] - start) if low < high else None


def _trace(log: TokenLog) -> LLMTrace:
    """A log as requests."""
    columns: Mapping[str, Any] = {} if log.kind is None else {"kind": log.kind, "classes": log.kinds}
    return LLMTrace(
        log.arrival, log.prompt_tokens, log.output_tokens, prefix_ids=log.prefix_ids, prefix_block=log.prefix_block,
        **columns,
    )  # fmt: skip
