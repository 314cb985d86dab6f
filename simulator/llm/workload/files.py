"""Public workloads of language models as they are published: Azure's LLM traces, Mooncake's, and plain lengths."""

from __future__ import annotations

# pandas brings no type stubs.
# pyright: reportMissingTypeStubs=false
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ....files import readable
from ....traces.files.text import read_header, require_columns, text_lines, translated_errors
from .requests import LLMTrace

__all__ = ["read_azure_llm", "read_lengths", "read_mooncake"]

LENGTHS = (("prompt_tokens", "output_tokens"), ("num_prefill_tokens", "num_decode_tokens"))
"""What files of lengths call their two columns."""


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
    names = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
    table = _table(Path(path), names)
    import pandas as pd

    library: Any = pd
    times = library.to_datetime(table[names[0]], errors="coerce", format="ISO8601", utc=True)
    _complain(path, names[0], times.isna().to_numpy(), "expected a date and time")
    seconds = (times - times.iloc[0]).dt.total_seconds().to_numpy()
    prompts, outputs = _counts(path, table, names[1]), _counts(path, table, names[2])
    order = np.argsort(seconds, kind="stable")
    whole = LLMTrace(seconds[order] - seconds[order[0]], prompts[order], outputs[order])
    return _between(whole, start, stop, path)


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
    rows: list[tuple[float, int, int, tuple[int, ...]]] = []
    with translated_errors(Path(path)):
        for number, line in enumerate(text_lines(Path(path)), start=1):
            if not line.strip():
                continue
            try:
                said = json.loads(line)
                ids = tuple(int(i) for i in said["hash_ids"])
                rows.append(
                    (float(said["timestamp"]) / 1e3, int(said["input_length"]), int(said["output_length"]), ids)
                )
            except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
                why = f"no field {error}" if isinstance(error, KeyError) else str(error)
                raise InputError(
                    f"{path}:{number}: expected an object with timestamp, input_length, output_length and hash_ids "
                    f"({why})"
                ) from None
            if len(ids) != -(-rows[-1][1] // 512):
                raise InputError(
                    f"{path}:{number}: hash_ids: expected one id for each 512 of {rows[-1][1]} tokens (got {len(ids)})"
                )
    if not rows:
        raise InputError(f"{path}: holds no request")
    rows.sort(key=lambda row: row[0])
    times, prompts, outputs, prefixes = zip(*rows, strict=True)
    whole = LLMTrace(np.array(times), np.array(prompts), np.array(outputs), prefix_ids=prefixes, prefix_block=512)
    return _between(whole, start, stop, path)


def read_lengths(path: str | Path) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Prompt and output lengths from a CSV without times, to draw requests from (see `draw`).

    Columns ``prompt_tokens, output_tokens``, or ``num_prefill_tokens, num_decode_tokens`` as in Vidur's processed
    traces (github.com/microsoft/vidur, MIT).

    Raises
    ------
    InputError
        On a file that cannot be read, columns that are missing, or a cell that is no count.
    """
    header = read_header(Path(path))
    names = next((pair for pair in LENGTHS if set(pair) <= set(header.columns)), LENGTHS[0])
    table = _table(Path(path), names)
    prompts, outputs = (_counts(path, table, name) for name in names)
    return prompts, outputs


def _table(path: Path, names: tuple[str, ...]) -> Any:
    header = read_header(path)
    require_columns(path, header, names)
    import pandas as pd

    library: Any = pd
    with translated_errors(path):
        table = library.read_csv(readable(path), skiprows=header.line - 1, usecols=list(names), skipinitialspace=True)
    if not len(table):
        raise InputError(f"{path}: holds no request")
    return table


def _counts(path: str | Path, table: Any, name: str) -> npt.NDArray[np.int64]:
    import pandas as pd

    library: Any = pd
    values = library.to_numeric(table[name], errors="coerce").to_numpy(dtype=np.float64)
    _complain(path, name, ~((values >= 1) & (values == np.floor(values))), "expected whole numbers >= 1")
    return values.astype(np.int64)


def _complain(path: str | Path, name: str, bad: npt.NDArray[np.bool_], why: str) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(f"{path}: column {name!r}, row {row + 1} after the header: {why} ({int(bad.sum())} rows)")


def _between(trace: LLMTrace, start: float, stop: float | None, path: str | Path) -> LLMTrace:
    end = float("inf") if stop is None else stop
    if not (0 <= start < end):
        raise InputError(f"start: expected seconds >= 0 and below stop (got {start} and {stop})")
    low, high = np.searchsorted(trace.arrival, [start, end])
    if low >= high:
        raise InputError(
            f"{path}: no request arrives in [{start:g}, {end:g}) s; the last one at {trace.arrival[-1]:g} s"
        )
    if start == 0 and high == len(trace):
        return trace
    some = trace.select(slice(int(low), int(high)))
    return LLMTrace(
        some.arrival - start, some.prompt_tokens, some.output_tokens,
        prefix_ids=some.prefix_ids, prefix_block=some.prefix_block,
    )  # fmt: skip
