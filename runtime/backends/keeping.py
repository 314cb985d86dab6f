"""`capture_kept`: captured graphs are kept in a folder, by what a run of their module did; weights are not kept.

`torch.export` takes CPU seconds: half of a ResNet's are for loading what it needs. A run of the module takes a tenth.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import InputError
from ...files import readable, write_text
from ...profiles.backends import InferenceGraph
from ...profiles.backends.document import made
from .capture import Captured, capture, checked_example
from .fingerprint import fingerprint, parameters_of
from .transfer import Named, Stored, restored, stored

if TYPE_CHECKING:
    import torch

__all__ = ["capture_kept"]

FORMAT = "meshwright-captured-graph"
VERSION = 1
REMEDY = "delete it, and the module is captured anew"
KINDS = ("dtype", "memory_format", "layout")
"""Settings of torch that have a name in it."""


def capture_kept(module: torch.nn.Module, inputs: Sequence[torch.Tensor], folder: str | Path) -> Captured:
    """As `capture`; a module that does what one before it did gets that one's graph, with its own parameters.

    What it does is seen by running it (`fingerprint`): nothing is taken for the same by a name or a time. A graph is
    kept if, run, it gives the bits that its module gave, and all its tensors are parameters.

    Parameters
    ----------
    module, inputs
        As of `capture`.
    folder : path
        Where graphs are kept; made if it is missing.

    Raises
    ------
    InputError
        As `capture`; if a kept file is damaged.
    """
    import torch

    folder, example = Path(folder), checked_example(module, inputs)
    run = fingerprint(module, example, _reader())
    if run is None:
        return capture(module, inputs)
    found = _kept(folder / f"{run.digest}.json", module, example)
    if found is None:
        found = capture(module, inputs)
        with torch.no_grad():
            (result,) = found.module(*example)
        if torch.equal(result, run.result):
            _keep(folder / f"{run.digest}.json", found)
    return found


def _reader() -> str:
    """What makes graphs of modules, besides torch: a digest of its text."""
    return hashlib.sha256(Path(__file__).with_name("capture.py").read_bytes()).hexdigest()


def _keep(path: Path, captured: Captured) -> None:
    """Write a graph, if it can be written."""
    held = stored(captured)
    if not held.tensors.keys() <= captured.sources.keys():
        return
    try:
        nodes = [[*node[:2], *map(_json, node[2:])] for node in held.nodes]
    except TypeError:
        return
    sources = {name: captured.sources[name] for name in sorted(held.tensors)}
    body = {"graph": asdict(held.graph), "nodes": nodes, "sources": sources}
    text = json.dumps(body, allow_nan=False, separators=(",", ":"))
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"format": FORMAT, "version": VERSION, "sha256": hashlib.sha256(text.encode()).hexdigest(), "body": text}
    write_text(path, json.dumps(document))


def _kept(path: Path, module: torch.nn.Module, example: tuple[torch.Tensor, ...]) -> Captured | None:
    """The graph of a file with a module's parameters; none if there is no file."""
    if not path.exists():
        return None
    body, tensors = _body(path), parameters_of(module)
    try:
        sources = dict(body["sources"])
        graph = made(InferenceGraph, body["graph"], str(path), REMEDY)
        nodes = tuple((kind, name, *map(_back, rest)) for kind, name, *rest in body["nodes"])
        held = {name: tensors[source].detach() for name, source in sources.items()}
        return replace(restored(Stored(graph, nodes, held, example)), sources=sources)
    except (TypeError, ValueError, KeyError, AttributeError, IndexError, RuntimeError) as error:
        raise InputError(f"{path}: damaged: {type(error).__name__}: {str(error)[:120]}; {REMEDY}") from None


def _body(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(readable(path).read_text(encoding="utf-8"))
        whole = found["format"] == FORMAT and found["version"] == VERSION
        body = found["body"]
        if not whole or hashlib.sha256(body.encode()).hexdigest() != found["sha256"]:
            raise ValueError("another format, version or digest")
        return json.loads(body)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise InputError(f"{path}: damaged: it is not what was written; {REMEDY}") from None


def _json(given: Any) -> Any:
    """An argument as JSON has it; what is no JSON is an object of one key that says what it is."""
    import torch

    if given is None or isinstance(given, bool | int | str) or (isinstance(given, float) and math.isfinite(given)):
        return given
    if isinstance(given, list):
        return [_json(one) for one in given]
    if isinstance(given, tuple):
        return {"tuple": [_json(one) for one in given]}
    if isinstance(given, dict):
        return {"dict": {str(name): _json(one) for name, one in given.items()}}
    if isinstance(given, Named):
        return {"node": given.name}
    if isinstance(given, float):
        return {"float": repr(given)}
    if isinstance(given, torch.device):
        return {"device": str(given)}
    for kind in KINDS:
        if isinstance(given, getattr(torch, kind)):
            return {kind: str(given).removeprefix("torch.")}
    raise TypeError(f"an argument of {type(given).__name__} has no form in JSON")


def _back(found: Any) -> Any:
    import torch

    if isinstance(found, list):
        return [_back(one) for one in found]
    if not isinstance(found, dict):
        return found
    ((kind, value),) = found.items()
    if kind == "tuple":
        return tuple(_back(one) for one in value)
    if kind == "dict":
        return {name: _back(one) for name, one in value.items()}
    if kind in KINDS:
        named = getattr(torch, value)
        if not isinstance(named, getattr(torch, kind)):
            raise TypeError(f"{value!r} is no {kind}")
        return named
    makers: Mapping[str, Any] = {"node": Named, "float": float, "device": torch.device}
    return makers[kind](value)
