"""Measured rows: a model, a device, a setting, and the TTFT and TPOT that a benchmark tool found there."""

from __future__ import annotations

# pandas brings no type stubs.
# pyright: reportMissingTypeStubs=false
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import InputError

__all__ = ["SiliconRow", "read_silicon"]

NUMBERS = ("isl", "osl", "concurrency", "tp_size", "silicon_ttft_ms", "silicon_tpot_ms")
WORDS = ("model_path", "system")
PRECISIONS = {
    "": "bf16",
    "bf16": "bf16",
    "bfloat16": "bf16",
    "fp16": "bf16",
    "float16": "bf16",
    "half": "bf16",
    "fp8": "fp8",
    "fp8_static": "fp8",
    "fp8_block": "fp8_block",
}
"""What rows say -> what the cost model calls it."""


@dataclass(frozen=True, slots=True)
class SiliconRow:
    """One measured setting.

    Parameters
    ----------
    line : int
        Line of the file.
    model, system, backend, version, precision : str
        The model by name; the folder of kernel tables; the engine, its version (may be empty), and bf16, fp8 or
        fp8_block.
    isl, osl, concurrency, tp, pp : int
        Tokens of a prompt and of an output, requests in flight, degrees of parallelism.
    ttft_ms, tpot_ms : float
        What was measured.
    """

    line: int
    model: str
    system: str
    backend: str
    version: str
    precision: str
    isl: int
    osl: int
    concurrency: int
    tp: int
    pp: int
    ttft_ms: float
    tpot_ms: float


def read_silicon(path: str | Path) -> list[SiliconRow]:
    """Read rows of measurements from a CSV file.

    Parameters
    ----------
    path : path
        Columns ``model_path, system, isl, osl, concurrency, tp_size, silicon_ttft_ms, silicon_tpot_ms``; where they are
        there also ``backend, backend_version, precision, gemm_quant_mode`` (says more than `precision`) and
        ``pp_size``. Others are passed over.

    Raises
    ------
    InputError
        If the file cannot be read, has no row, misses columns, or holds what is no number.
    """
    import pandas as pd

    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path}: expected a CSV file of measured rows (got a folder)")
    try:
        frame: Any = pd.read_csv(path, dtype=str, keep_default_na=False)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as CSV: {' '.join(str(error).split())}") from None
    missing = [name for name in (*WORDS, *NUMBERS) if name not in frame.columns]
    if missing:
        raise InputError(f"{path}: columns missing: {', '.join(missing)}")
    if frame.empty:
        raise InputError(f"{path}: no rows; expected at least one measurement")
    return [_row(path, line, said) for line, said in enumerate(frame.to_dict("records"), start=2)]


def _row(path: Path, line: int, said: dict[str, Any]) -> SiliconRow:
    where = f"{path}: line {line}"
    for name in WORDS:
        if not str(said[name]).strip():
            raise InputError(f"{where}: {name}: expected a name (got nothing)")
    word = str(said.get("gemm_quant_mode") or said.get("precision") or "").strip().lower()
    if word not in PRECISIONS:
        known = ", ".join(name for name in PRECISIONS if name)
        raise InputError(
            f"{where}: precision: unknown precision {word!r}; expected one of {known}, or nothing for bf16"
        )
    return SiliconRow(
        line,
        str(said["model_path"]).strip(),
        str(said["system"]).strip(),
        str(said.get("backend") or "vllm").strip().lower(),
        str(said.get("backend_version") or "").strip(),
        PRECISIONS[word],
        _count(where, "isl", said["isl"]),
        _count(where, "osl", said["osl"]),
        _count(where, "concurrency", said["concurrency"]),
        _count(where, "tp_size", said["tp_size"]),
        _count(where, "pp_size", said.get("pp_size") or "1"),
        _positive(where, "silicon_ttft_ms", said["silicon_ttft_ms"]),
        _positive(where, "silicon_tpot_ms", said["silicon_tpot_ms"]),
    )


def _positive(where: str, name: str, text: Any) -> float:
    try:
        value = float(text)
    except (TypeError, ValueError):
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"{where}: {name}: expected a finite number > 0 (got {str(text)!r})")
    return value


def _count(where: str, name: str, text: Any) -> int:
    value = _positive(where, name, text)
    if value != int(value):
        raise InputError(f"{where}: {name}: expected a whole number >= 1 (got {str(text)!r})")
    return int(value)
