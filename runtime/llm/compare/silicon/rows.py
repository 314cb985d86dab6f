"""Measured rows: a model, a device, a setting, and the TTFT and TPOT that a benchmark tool found there."""

from __future__ import annotations

# pandas brings no type stubs.
# pyright: reportMissingTypeStubs=false
import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .....errors import InputError
from .....files import readable
from .....reprs import Shown
from ...measure.precisions import kv_named, named, precision_named

__all__ = ["SiliconRow", "Skipped", "read_silicon", "sift_silicon"]

NUMBERS = ("isl", "osl", "concurrency", "tp_size", "silicon_ttft_ms", "silicon_tpot_ms")
WORDS = ("model_path", "system")
OTHER_NAMES = {
    "model": "model_path",
    "conc": "concurrency",
    "tp": "tp_size",
    "pp": "pp_size",
    "dp": "dp_size",
    "attention_dp_size": "dp_size",
    "moe_tp": "moe_tp_size",
    "moe_ep": "moe_ep_size",
    "backend_name": "backend",
    "silicon_ttft_avg": "silicon_ttft_ms",
    "silicon_tpot_avg": "silicon_tpot_ms",
    "kvcache_quant_mode": "kv_cache_dtype",
}
"""What columns are called elsewhere; `batch_size` stands for a concurrency that is not there."""
SPECULATIVE = ("nextn", "num_speculative_tokens")


@dataclass(frozen=True, slots=True, repr=False)
class SiliconRow(Shown):
    """Measured latencies of one setting.

    Parameters
    ----------
    line : int
        Line of the file.
    model, system, backend, version, precision : str
        Name of the model; folder of the kernel tables; engine and its version (may be empty); precision by the cost
        model's name.
    isl, osl, concurrency, tp, pp : int
        Tokens of a prompt and of an output, requests in flight, tensor- and pipeline-parallel degrees.
    ttft_ms, tpot_ms : float
        Measured TTFT and TPOT, milliseconds.
    dp, ep : int
        Data-parallel ranks, each with requests of its own, and expert-parallel degree (0 if the file does not say).
    kv : str
        Precision of the KV cache, ``bf16`` or ``fp8``.
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
    dp: int = 1
    ep: int = 0
    kv: str = "bf16"

    @property
    def kept(self) -> bool:
        """Whether the row is of the half that nothing in this project is chosen by: by a digest of its setting."""
        setting = f"{self.model} {self.system} {self.isl} {self.osl} {self.concurrency} {self.tp}"
        return hashlib.sha256(setting.encode()).digest()[0] % 2 == 1


@dataclass(frozen=True, slots=True)
class Skipped:
    """A row that is not predicted.

    Parameters
    ----------
    line : int
        Line of the file.
    model, reason : str
        The model as the row names it, and why.
    """

    line: int
    model: str
    reason: str


def read_silicon(path: str | Path) -> list[SiliconRow]:
    """Read rows of measurements from a CSV file.

    Parameters
    ----------
    path : path
        Columns ``model_path, system, isl, osl, concurrency, tp_size, silicon_ttft_ms, silicon_tpot_ms``; where they are
        there also ``backend, backend_version, precision, gemm_quant_mode`` (says more than `precision`), ``pp_size,
        dp_size, moe_ep_size, kv_cache_dtype``, and the names of `OTHER_NAMES`. Others are passed over.

    Raises
    ------
    InputError
        If the file cannot be read, has no row, misses columns, or holds what is no number.
    """
    found, skipped = sift_silicon(path)
    if skipped:
        raise InputError(skipped[0].reason)
    return found


def sift_silicon(path: str | Path) -> tuple[list[SiliconRow], list[Skipped]]:
    """`read_silicon`, but rows that cannot be read are set aside with the reason.

    Raises
    ------
    InputError
        If the file cannot be read, has no row, or misses columns.
    """
    import pandas as pd

    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path}: expected a CSV file of measured rows (got a folder)")
    try:
        frame: Any = pd.read_csv(readable(path), dtype=str, keep_default_na=False)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as CSV: {' '.join(str(error).split())}") from None
    frame = frame.rename(
        columns={a: b for a, b in OTHER_NAMES.items() if a in frame.columns and b not in frame.columns}
    )
    if "concurrency" not in frame.columns and "batch_size" in frame.columns:
        frame = frame.rename(columns={"batch_size": "concurrency"})
    missing = [name for name in (*WORDS, *NUMBERS) if name not in frame.columns]
    if missing:
        raise InputError(f"{path}: columns missing: {', '.join(missing)}")
    if frame.empty:
        raise InputError(f"{path}: no rows; expected at least one measurement")
    found: list[SiliconRow] = []
    skipped: list[Skipped] = []
    for line, said in enumerate(frame.to_dict("records"), start=2):
        try:
            found.append(_row(path, line, said))
        except InputError as error:
            skipped.append(Skipped(line, str(said["model_path"]).strip(), str(error)))
    return found, skipped


def _row(path: Path, line: int, said: dict[str, Any]) -> SiliconRow:
    where = f"{path}: line {line}"
    for name in WORDS:
        if not str(said[name]).strip():
            raise InputError(f"{where}: {name}: expected a name (got nothing)")
    if str(said.get("mode") or "").strip().lower().startswith("disagg") or _true(said.get("disagg")):
        raise InputError(f"{where}: prefill and decode ran on different engines; only colocated rows are predicted")
    for name in SPECULATIVE:
        if str(said.get(name) or "0").strip() not in ("", "0", "0.0"):
            raise InputError(f"{where}: {name}: the acceptance of drafts is not in the row; it is not predicted")
    word = str(said.get("gemm_quant_mode") or said.get("precision") or "").strip()
    try:
        precision = precision_named(word) if word else named(str(said["model_path"]))
        kv = kv_named(str(said.get("kv_cache_dtype") or ""))
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    return SiliconRow(
        line,
        str(said["model_path"]).strip(),
        str(said["system"]).strip(),
        str(said.get("backend") or "vllm").strip().lower(),
        str(said.get("backend_version") or "").strip(),
        precision,
        _count(where, "isl", said["isl"]),
        _count(where, "osl", said["osl"]),
        _count(where, "concurrency", said["concurrency"]),
        _count(where, "tp_size", said["tp_size"]),
        _count(where, "pp_size", said.get("pp_size") or "1"),
        _positive(where, "silicon_ttft_ms", said["silicon_ttft_ms"]),
        _positive(where, "silicon_tpot_ms", said["silicon_tpot_ms"]),
        _count(where, "dp_size", said.get("dp_size") or "1"),
        _count(where, "moe_ep_size", said["moe_ep_size"]) if str(said.get("moe_ep_size") or "").strip() else 0,
        kv,
    )


def _true(value: Any) -> bool:
    return str(value or "").strip().lower() in ("true", "1", "1.0", "yes")


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
