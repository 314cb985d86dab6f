"""Graphs as JSON: one operator a line, loops as ``name=size`` with marks, readable and diffable."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from ...errors import InputError, MeshwrightError
from ...files import readable, write_text
from .fused.part import FusedPart
from .graph import Graph
from .operator import Loop, Operator, Tensor
from .running import Running

__all__ = ["from_json", "load_graph", "operator_row", "read_operator", "save_graph", "to_json"]

KIND = "meshwright/graph"
VERSION = 1
_LOOP = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=([0-9]+)(\*?)([~!]?)$")
_MARK = {"free": "", "statistic": "~", "whole": "!"}
_WORDS = {str: "text", int: "an integer", list: "a list", dict: "an object", bool: "true or false"}
_SPLIT = {mark: split for split, mark in _MARK.items()}


def to_json(graph: Graph) -> str:
    """The graph as JSON text. Loops are ``name=size``; ``*`` grows with the batch, ``~`` statistic, ``!`` whole."""
    head: dict[str, Any] = {
        "kind": KIND, "version": VERSION, "name": graph.name, "batch": graph.batch,
        "items_per_sample": graph.items_per_sample, "items": graph.items, "source": graph.source,
    }  # fmt: skip
    if graph.results:
        head["results"] = list(graph.results)
    body = [f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in head.items()]
    for key, rows in (
        ("inputs", [_tensor(t) for t in graph.inputs]),
        ("parameters", [_tensor(t) for t in graph.parameters]),
        ("operators", [operator_row(op) for op in graph.operators]),
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
            inputs=_rows(document, "inputs", _read_tensor),
            parameters=_rows(document, "parameters", _read_tensor),
            operators=_rows(document, "operators", read_operator),
            items_per_sample=_number(document, "items_per_sample", 1.0),
            items=_typed(document, "items", str, "samples"),
            source=_typed(document, "source", str, ""),
            results=_names(document, "results", []),
        )
    except MeshwrightError as error:
        raise InputError(f"{where}: {error}") from None


def load_graph(path: str | Path) -> Graph:
    """Read a graph file.

    Raises
    ------
    InputError
        If it cannot be read or is no graph.
    """
    try:
        text = readable(path).read_text(encoding="utf-8")
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
    if t.part is not None:
        row["part"] = {"of": t.part.of, "shape": list(t.part.shape), "dim": t.part.dim, "start": t.part.start}
    return row


def operator_row(op: Operator) -> dict[str, Any]:
    """An operator as a row of a document."""
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
    if op.nodes:
        row["nodes"] = list(op.nodes)
    if op.running is not None:
        row["running"] = op.running.document()
    return row


_Row = TypeVar("_Row", Tensor, Operator)
_MISSING: Any = object()


def _rows(document: dict[str, Any], key: str, read: Callable[[dict[str, Any]], _Row]) -> tuple[_Row, ...]:
    found: list[_Row] = []
    for i, row in enumerate(_typed(document, key, list)):
        if not isinstance(row, dict):
            raise InputError(f"{key}[{i}]: expected an object (got {row!r})")
        try:
            found.append(read(cast("dict[str, Any]", row)))
        except MeshwrightError as error:
            raise InputError(f"{key}[{i}]: {error}") from None
    return tuple(found)


def _typed(row: dict[str, Any], key: str, kind: type, default: Any = _MISSING) -> Any:
    value = row.get(key, default)
    if value is _MISSING:
        raise InputError(f"{key}: missing; expected {_WORDS[kind]}")
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise InputError(f"{key}: expected {_WORDS[kind]} (got {value!r})")
    return value


def _number(row: dict[str, Any], key: str, default: float) -> float:
    value = row.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise InputError(f"{key}: expected a number (got {value!r})")
    return float(value)


def _integers(row: dict[str, Any], key: str, default: Any = _MISSING) -> tuple[int, ...]:
    values = _typed(row, key, list, default)
    if any(isinstance(n, bool) or not isinstance(n, int) for n in values):
        raise InputError(f"{key}: expected integers (got {values!r})")
    return tuple(values)


def _names(row: dict[str, Any], key: str, default: Any = _MISSING) -> tuple[str, ...]:
    values = _typed(row, key, list, default)
    if not all(isinstance(name, str) for name in values):
        raise InputError(f"{key}: expected names (got {values!r})")
    return tuple(values)


def _read_tensor(row: dict[str, Any]) -> Tensor:
    return Tensor(
        _typed(row, "name", str), _integers(row, "shape"), _typed(row, "dtype", str, "float16"),
        _integers(row, "batch_dims", []), _typed(row, "trainable", bool, True), _part(row),
    )  # fmt: skip


def _part(row: dict[str, Any]) -> FusedPart | None:
    said = cast("dict[str, Any]", _typed(row, "part", dict, {}))
    if not said:
        return None
    return FusedPart(
        _typed(said, "of", str), _integers(said, "shape"), _typed(said, "dim", int), _typed(said, "start", int)
    )


def read_operator(row: dict[str, Any]) -> Operator:
    """The operator of a row.

    Raises
    ------
    InputError
        If a field is missing or is no such value.
    """
    found = cast("dict[str, Any]", _typed(row, "attributes", dict, {}))
    attributes = {k: tuple(cast("list[Any]", v)) if isinstance(v, list) else v for k, v in found.items()}
    running = cast("dict[str, Any]", _typed(row, "running", dict, {}))
    return Operator(
        _typed(row, "name", str), _typed(row, "kind", str), _typed(row, "formula", str), _names(row, "inputs"),
        tuple(_loop(word) for word in _typed(row, "loops", str).split()), _typed(row, "dtype", str, "float16"),
        _number(row, "flops", -1.0), _integers(row, "saves", []), attributes, _typed(row, "layer", int, -1),
        _names(row, "nodes", []), Running.read(running) if running else None,
    )  # fmt: skip


def _loop(word: str) -> Loop:
    match = _LOOP.match(word)
    if match is None:
        raise InputError(f"loops: expected name=size with marks *, ~ or ! (got {word!r})")
    name, size, batch, mark = match.groups()
    return Loop(name, int(size), bool(batch), _SPLIT[mark])  # pyright: ignore[reportArgumentType]
