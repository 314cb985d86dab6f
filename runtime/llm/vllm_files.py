"""A recorded run of vLLM, as LLMServingSim publishes them: requests, their times, engine arguments, a series."""

from __future__ import annotations

# pandas brings no type stubs.
# pyright: reportMissingTypeStubs=false
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...files import readable
from ...reprs import Shown
from .vllm_arguments import engine_arguments

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["VLLMRun", "read_vllm_run"]

Column = npt.NDArray[np.float64]
TIMES = ("arrival_time", "queued_ts", "first_token_ts", "last_token_ts")
COUNTS = ("input_toks", "output_toks")
TOKENS = ("prompt_token_ids", "input_tok_ids")
"""Where requests say the ids of their prompts' tokens, if they do."""
SERIES = ("t", "running", "waiting", "kv_cache_pct")


@dataclass(frozen=True, eq=False, repr=False)
class VLLMRun(Shown):
    """A recorded run of vLLM; requests in order of arrival, times in seconds from the first arrival.

    Parameters
    ----------
    folder : Path
        Folder of the recording.
    model, version : str
        Name of the model, and vLLM's version.
    arguments : mapping
        Engine arguments.
    prompt_tokens, output_tokens : ndarray of int64, shape (n,)
        Lengths.
    arrival, queued, first_token, last_token : ndarray of float64, shape (n,)
        When each request arrived (wall clock, put onto the engine's clock), was queued in the engine, and had its
        first and last token.
    offset_s : float
        Seconds added to the wall clock to get the engine's clock: the smallest ``queued_ts - arrival_time``.
    series : DataFrame, optional
        ``t, running, waiting, kv_cache_pct`` over time; None where the run has no timeseries.csv.
    left_out : int
        Number of requests of the file that lack a time and are left out.
    prompts : sequence of sequence of int, optional
        Ids of the prompts' tokens, where every request of the file has ``prompt_token_ids`` (or ``input_tok_ids``).
    """

    folder: Path
    model: str
    version: str
    arguments: Mapping[str, Any]
    prompt_tokens: npt.NDArray[np.int64]
    output_tokens: npt.NDArray[np.int64]
    arrival: Column
    queued: Column
    first_token: Column
    last_token: Column
    offset_s: float
    series: pd.DataFrame | None = None
    left_out: int = 0
    prompts: tuple[tuple[int, ...], ...] | None = None

    def __len__(self) -> int:
        return len(self.queued)

    def count(self, name: str, default: int) -> int:
        """An engine argument that is a whole number >= 1; `default` where it is absent or null."""
        value = self.arguments.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(
                f"{self.folder / 'meta.json'}: engine_kwargs: {name}: expected an integer >= 1 (got {value!r})"
            )
        return value

    def share(self, name: str, default: float) -> float:
        """An engine argument that is a share in (0, 1]; `default` where it is absent or null."""
        value = self.arguments.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
            raise InputError(
                f"{self.folder / 'meta.json'}: engine_kwargs: {name}: expected a share in (0, 1] (got {value!r})"
            )
        return float(value)


def read_vllm_run(folder: str | Path) -> VLLMRun:
    """Read a folder with requests.jsonl, meta.json and, if it is there, timeseries.csv.

    Raises
    ------
    InputError
        If a file is missing or empty, or a field is missing or no number.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder}: expected a folder with requests.jsonl and meta.json; there is none")
    meta = _json(folder / "meta.json", _text(folder / "meta.json"))
    arguments = engine_arguments(meta)
    if arguments is None:
        raise InputError(f"{folder / 'meta.json'}: fields missing: engine_kwargs")
    model: Any = meta.get("model") or arguments.get("model")
    if not isinstance(model, str):
        raise InputError(f"{folder / 'meta.json'}: fields missing: model")
    columns, prompts, left_out = _requests(folder / "requests.jsonl")
    rows = np.lexsort((columns["queued_ts"], columns["arrival_time"]))
    columns = {name: column[rows] for name, column in columns.items()}
    # Two clocks, wall and monotonic: the request that waited least was queued at once, or nearly.
    offset = float((columns["queued_ts"] - columns["arrival_time"]).min())
    arrival = columns["arrival_time"] + offset
    zero = float(arrival.min())
    return VLLMRun(
        folder,
        model,
        str(meta.get("vllm_version") or ""),
        arguments,
        columns["input_toks"].astype(np.int64),
        columns["output_toks"].astype(np.int64),
        arrival - zero,
        columns["queued_ts"] - zero,
        columns["first_token_ts"] - zero,
        columns["last_token_ts"] - zero,
        offset,
        _series(folder / "timeseries.csv"),
        left_out,
        tuple(prompts[int(row)] for row in rows) if prompts else None,
    )


def _text(path: Path) -> str:
    try:
        return readable(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; a recorded run has requests.jsonl and meta.json") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None


def _json(where: object, text: str) -> dict[str, Any]:
    try:
        said: Any = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{where}: no JSON: {error}") from None
    if not isinstance(said, dict):
        raise InputError(f"{where}: expected an object (got {type(said).__name__})")
    return cast("dict[str, Any]", said)


def _requests(path: Path) -> tuple[dict[str, Column], list[tuple[int, ...]], int]:
    """Columns by name, the prompts' tokens if all have them, and how many requests lack a time: what did not end."""
    left_out, prompts = 0, list[tuple[int, ...]]()
    names = (*COUNTS, *TIMES)
    found: dict[str, list[float]] = {name: [] for name in names}
    for number, line in enumerate(_text(path).splitlines(), start=1):
        if not line.strip():
            continue
        where = f"{path}: line {number}"
        said = _json(where, line)
        missing = [name for name in names if name not in said]
        if missing:
            raise InputError(f"{where}: fields missing: {', '.join(missing)}")
        if any(said[name] is None for name in TIMES):
            left_out += 1
            continue
        for name in names:
            value = said[name]
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise InputError(f"{where}: {name}: expected a finite number (got {value!r})")
            if name in COUNTS and (value < 1 or value != int(value)):
                raise InputError(f"{where}: {name}: expected an integer >= 1 (got {value!r})")
            found[name].append(float(value))
        ids = _tokens(where, said)
        if ids is not None:
            prompts.append(ids)
        if not said["queued_ts"] <= said["first_token_ts"] <= said["last_token_ts"]:
            raise InputError(f"{where}: expected queued_ts <= first_token_ts <= last_token_ts")
    if not found["queued_ts"]:
        raise InputError(f"{path}: no requests; expected at least one")
    columns = {name: np.array(values) for name, values in found.items()}
    return columns, prompts if len(prompts) == len(found["queued_ts"]) else [], left_out


def _tokens(where: str, said: dict[str, Any]) -> tuple[int, ...] | None:
    """Ids of a prompt's tokens, if a request has them."""
    name = next((name for name in TOKENS if said.get(name) is not None), None)
    if name is None:
        return None
    ids: Any = said[name]
    whole = isinstance(ids, list) and all(
        isinstance(i, int) and not isinstance(i, bool) for i in cast("list[Any]", ids)
    )
    if not whole or len(cast("list[Any]", ids)) != said["input_toks"]:
        raise InputError(f"{where}: {name}: expected the ids of the prompt's {said['input_toks']:g} tokens")
    return tuple(cast("list[int]", ids))


def _series(path: Path) -> pd.DataFrame | None:
    if not path.is_file():
        return None
    import pandas as pd

    try:
        frame: Any = pd.read_csv(path)
        missing = [name for name in SERIES if name not in frame.columns]
        if missing:
            raise InputError(f"{path}: columns missing: {', '.join(missing)}")
        return frame[list(SERIES)].astype(float)
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as CSV: {' '.join(str(error).split())}") from None
