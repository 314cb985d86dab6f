"""Graphs as JSON: one operator a line, loops as ``name=size`` with marks, readable and diffable."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, cast

from ...errors import InputError, MeshwrightError
from ...files import write_text
from .graph import Graph
from .operator import Loop, Operator, Tensor

__all__ = ["from_json", "load_graph", "save_graph", "to_json"]

KIND = "meshwright/graph"
VERSION = 1
_LOOP = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=([0-9]+)(\*?)([~!]?)$")
_MARK = {"free": "", "statistic": "~", "whole": "!"}
_SPLIT = {mark: split for split, mark in _MARK.items()}


def to_json(graph: Graph) -> str:
    """The graph as JSON text. Loops are ``name=size``; ``*`` grows with the batch, ``~`` statistic, ``!`` whole."""
    head = {
        "kind": KIND, "version": VERSION, "name": graph.name, "batch": graph.batch,
        "items_per_sample": graph.items_per_sample, "items": graph.items, "source": graph.source,
    }  # fmt: skip
    body = [f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in head.items()]
    for key, rows in (
        ("inputs", [_tensor(t) for t in graph.inputs]),
        ("parameters", [_tensor(t) for t in graph.parameters]),
        ("operators", [_operator(op) for op in graph.operators]),
    ):
        lines = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in rows)
        body.append(f' "{key}": [\n{lines}\n ]' if rows else f' "{key}": []')
    return "{\n" + ",\n".join(body) + "\n}\n"


def from_json(text: str, where: str = "graph") -> Graph:
    """Read a graph.

    Raises
    ------
    InputError
        If it is not a graph, or contradicts itself; the message names the entry.
    """
    try:
        data = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{where}: not JSON: {error}") from None
    if not isinstance(data, dict) or cast("dict[str, Any]", data).get("kind") != KIND:
        raise InputError(f"{where}: not a Meshwright graph; expected an object with kind {KIND!r}")
    document = cast("dict[str, Any]", data)
    if document.get("version") != VERSION:
        raise InputError(f"{where}: version: expected {VERSION} (got {document.get('version')!r})")
    try:
        return Graph(
            name=_typed(document, "name", str),
            batch=_typed(document, "batch", int),
            inputs=tuple(_read_tensor(row) for row in _typed(document, "inputs", list)),
            parameters=tuple(_read_tensor(row) for row in _typed(document, "parameters", list)),
            operators=tuple(_read_operator(row) for row in _typed(document, "operators", list)),
            items_per_sample=float(document.get("items_per_sample", 1.0)),
            items=str(document.get("items", "samples")),
            source=str(document.get("source", "")),
        )
    except MeshwrightError as error:
        raise InputError(f"{where}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{where}: {type(error).__name__}: {error}") from None


def load_graph(path: str | Path) -> Graph:
    """Read a graph file.

    Raises
    ------
    InputError
        If it cannot be read or is no graph.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot read the graph: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a graph: not UTF-8 text (byte {error.start})") from None
    return from_json(text, str(path))


def save_graph(graph: Graph, path: str | Path) -> Path:
    """Write a graph, whole."""
    return write_text(path, to_json(graph))


def _tensor(t: Tensor) -> dict[str, Any]:
    row: dict[str, Any] = {"name": t.name, "shape": list(t.shape), "dtype": t.dtype}
    if t.batch_dims:
        row["batch_dims"] = list(t.batch_dims)
    if not t.trainable:
        row["trainable"] = False
    return row


def _operator(op: Operator) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": op.name,
        "kind": op.kind,
        "formula": op.formula,
        "inputs": list(op.inputs),
        "loops": " ".join(f"{x.name}={x.size}{'*' if x.batch else ''}{_MARK[x.split]}" for x in op.loops),
        "dtype": op.dtype,
        "flops": op.flops,
    }
    if op.saves:
        row["saves"] = list(op.saves)
    if op.attributes:
        row["attributes"] = {k: list(v) if isinstance(v, tuple) else v for k, v in op.attributes.items()}
    if op.layer >= 0:
        row["layer"] = op.layer
    return row


def _typed(row: dict[str, Any], key: str, kind: type) -> Any:
    if not isinstance(row.get(key), kind) or isinstance(row.get(key), bool):
        raise InputError(f"{key}: expected {kind.__name__} (got {row.get(key)!r})")
    return row[key]


def _read_tensor(row: dict[str, Any]) -> Tensor:
    return Tensor(
        str(row["name"]), tuple(row["shape"]), str(row.get("dtype", "float16")), tuple(row.get("batch_dims", ())),
        bool(row.get("trainable", True)),
    )  # fmt: skip


def _read_operator(row: dict[str, Any]) -> Operator:
    attributes = {k: tuple(v) if isinstance(v, list) else v for k, v in row.get("attributes", {}).items()}
    return Operator(
        str(row["name"]), str(row["kind"]), str(row["formula"]), tuple(row["inputs"]),
        tuple(_loop(word) for word in str(row["loops"]).split()), str(row.get("dtype", "float16")),
        float(row.get("flops", -1.0)), tuple(row.get("saves", ())), attributes, int(row.get("layer", -1)),
    )  # fmt: skip


def _loop(word: str) -> Loop:
    match = _LOOP.match(word)
    if match is None:
        raise InputError(f"loops: expected name=size with marks *, ~ or ! (got {word!r})")
    name, size, batch, mark = match.groups()
    return Loop(name, int(size), bool(batch), _SPLIT[mark])  # pyright: ignore[reportArgumentType]
