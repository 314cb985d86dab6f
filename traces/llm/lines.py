"""Mooncake's traces (JSON lines), and the results that vLLM's own benchmark writes (one JSON object)."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from ...errors import InputError
from ..columns import FloatArray, LongArray
from ..files.text import TraceWarning, text_lines, translated_errors
from .log import TokenLog, made

__all__ = ["BENCH", "MOONCAKE", "json_of", "read_bench", "read_mooncake_log"]

MOONCAKE = ("timestamp", "input_length", "output_length", "hash_ids")
"""github.com/kvcache-ai/Mooncake (Apache-2.0). An id stands for 512 tokens and all that comes before them."""
BENCH = ("input_lens", "output_lens", "start_times")
"""Of ``vllm bench serve --save-result --save-detailed`` (vllm/benchmarks/serve.py, Apache-2.0)."""
BLOCK = 512


def read_mooncake_log(path: Path, *, sort: bool = False) -> TokenLog:
    """Mooncake: ``timestamp`` (milliseconds), ``input_length``, ``output_length``, ``hash_ids``, an object a line."""
    times: list[float] = []
    prompts: list[int] = []
    outputs: list[int] = []
    ids: list[tuple[int, ...]] = []
    with translated_errors(path):
        for number, line in enumerate(text_lines(path), start=1):
            if not line.strip():
                continue
            where = f"{path}:{number}"
            said = _object(where, line)
            for name in MOONCAKE:
                if name not in said:
                    raise InputError(f"{where}: no field {name!r}; expected {', '.join(MOONCAKE)}")
            time = _number(f"{where}: timestamp", said["timestamp"]) / 1e3
            if times and time < times[-1] and not sort:
                raise InputError(
                    f"{where}: timestamp is earlier than the line before, {1e3 * times[-1]:g} "
                    f"(got {said['timestamp']!r}); --sort of meshwright trace convert mends it"
                )
            prompt = _count(f"{where}: input_length", said["input_length"])
            found = _hashes(where, said["hash_ids"])
            if len(found) != -(-prompt // BLOCK):
                raise InputError(
                    f"{where}: hash_ids: expected one id for each {BLOCK} of {prompt} tokens (got {len(found)})"
                )
            times.append(time)
            prompts.append(prompt)
            outputs.append(_count(f"{where}: output_length", said["output_length"]))
            ids.append(found)
    if not times:
        raise InputError(f"{path}: holds no request")
    log = TokenLog(np.array(times), np.array(prompts), np.array(outputs), prefix_ids=ids, prefix_block=BLOCK)
    return made(path, log.rows(np.argsort(log.arrival, kind="stable")) if sort else log, "line")


def read_bench(path: Path) -> TokenLog:
    """A detailed result of ``vllm bench serve``: the requests that were sent, in the order in which they were sent.

    Where a version writes no ``start_times``, all requests of an unlimited rate came at once; of a limited one nobody
    knows when.
    """
    said = cast("Mapping[str, Any]", json_of(path))
    for name in BENCH[:2]:
        if not isinstance(said.get(name), list):
            raise InputError(f"{path}: no list {name!r}; was the result written with --save-detailed?")
    prompts = _counts(path, "input_lens", said["input_lens"])
    outputs = _counts(path, "output_lens", said["output_lens"])
    n = len(prompts)
    begun, errors = said.get("start_times"), said.get("errors")
    for name, column in (("output_lens", outputs), ("start_times", begun), ("errors", errors)):
        if column is not None and (
            not isinstance(column, list | np.ndarray) or len(cast("Sequence[Any]", column)) != n
        ):
            raise InputError(f"{path}: {name}: expected {n} entries, one for each of input_lens")
    if errors is not None:  # what failed generated nothing that counts
        outputs = np.where([bool(each) for each in cast("list[Any]", errors)], 0, outputs)
    times = _begun(path, begun, said, n)
    return made(path, TokenLog(times, prompts, outputs).rows(np.argsort(times, kind="stable")), "request")


def _begun(path: Path, begun: Any, said: Mapping[str, Any], n: int) -> FloatArray:
    """When each request was sent, seconds on any clock."""
    if begun is not None:
        column = cast("list[Any]", begun)
        return np.array([_number(f"{path}: start_times[{i}]", each) for i, each in enumerate(column)])
    rate = said.get("request_rate")
    if rate != "inf" and rate != math.inf:
        raise InputError(
            f"{path}: no list 'start_times', and request_rate is {rate!r}: nobody knows when requests were sent; "
            "give the file as workload.lengths, and a rate"
        )
    most = said.get("max_concurrency")
    loop = f"; at most {most} at a time: say workload.clients.concurrency {most}" if most else ""
    warnings.warn(
        f"{path}: no list 'start_times', request_rate inf: all requests come at 0{loop}", TraceWarning, stacklevel=3
    )
    return np.zeros(n)


def json_of(path: Path) -> Any:
    """The JSON of a whole file.

    Raises
    ------
    InputError
        With line and column of what is no JSON.
    """
    with translated_errors(path):
        text = "".join(text_lines(path))
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}: is no JSON ({error.msg} at column {error.colno})") from None


def _object(where: str, line: str) -> Mapping[str, Any]:
    try:
        said = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(f"{where}: expected an object with {', '.join(MOONCAKE)} ({error.msg})") from None
    if not isinstance(said, dict):
        raise InputError(f"{where}: expected an object with {', '.join(MOONCAKE)} (got {line.strip()[:60]})")
    return cast("Mapping[str, Any]", said)


def _hashes(where: str, value: Any) -> tuple[int, ...]:
    blocks = cast("list[Any]", value) if isinstance(value, list) else None
    if blocks is None or not all(_whole(each) for each in blocks):
        raise InputError(f"{where}: hash_ids: expected a list of whole numbers (got {json.dumps(value)[:60]})")
    return tuple(blocks)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _count(where: str, value: Any) -> int:
    if not _whole(value) or value < 0:
        raise InputError(f"{where}: must be an integer >= 0 (got {value!r})")
    return value


def _number(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not (math.isfinite(value) and value >= 0):
        raise InputError(f"{where}: must be a finite number >= 0 (got {value!r})")
    return float(value)


def _counts(path: Path, name: str, column: list[Any]) -> LongArray:
    return np.array([_count(f"{path}: {name}[{i}]", each) for i, each in enumerate(column)], dtype=np.int64)
