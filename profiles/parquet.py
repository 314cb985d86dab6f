"""Layer tables as Parquet: one row per layer, the rest in the file's key-value metadata. Needs pyarrow."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from ..errors import InputError, MeshwrightError, install_hint
from ..files import readable

__all__ = ["from_parquet", "to_parquet"]

_META = b"meshwright"


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MeshwrightError(
            f"Parquet layer tables need pyarrow; install it with: {install_hint('parquet')}, or use JSON"
        ) from None
    return pyarrow, pyarrow.parquet


def to_parquet(document: dict[str, Any]) -> bytes:
    """A layer-table document as the bytes of a Parquet file.

    Columns are ``name``, ``block``, the sizes, ``weight_bytes_op{k}`` and ``latency_s_op{k}_batch{b}``.
    """
    pa, pq = _pyarrow()
    rows = []
    for layer in document["layers"]:
        row = {k: v for k, v in layer.items() if k not in ("weight_bytes", "latency_s")}
        row |= {f"weight_bytes_op{op}": w for op, w in layer["weight_bytes"].items()}
        row |= {f"latency_s_op{op}_batch{b}": s for op, cells in layer["latency_s"].items() for b, s in cells.items()}
        rows.append(row)
    head = {k: v for k, v in document.items() if k != "layers"}
    table = pa.Table.from_pylist(rows)
    table = table.replace_schema_metadata({_META: json.dumps(head).encode()})
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def from_parquet(path: Path) -> dict[str, Any]:
    """The document back; whether it is a valid one is for `layers_from_document` to say."""
    pa, pq = _pyarrow()
    try:
        table = pq.read_table(readable(path))
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path}: not a readable Parquet file ({error}); is the file whole?") from None
    meta = (table.schema.metadata or {}).get(_META)
    if meta is None:
        raise InputError(f"{path}: Parquet metadata 'meshwright' is missing; expected a saved layer table")
    layers = []
    for row in table.to_pylist():
        layer: dict[str, Any] = {"weight_bytes": {}, "latency_s": {}}
        for key, value in row.items():
            if key.startswith("weight_bytes_op"):
                layer["weight_bytes"][key.removeprefix("weight_bytes_op")] = value
            elif key.startswith("latency_s_op"):
                op, _, batch = key.removeprefix("latency_s_op").partition("_batch")
                layer["latency_s"].setdefault(op, {})[batch] = value
            else:
                layer[key] = value
        layers.append(layer)
    return {**json.loads(meta), "layers": layers}
