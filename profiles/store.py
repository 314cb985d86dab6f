"""Profiles on disk: shipped sets by name, files by path; JSON, and Parquet for layer tables; never pickle."""

from __future__ import annotations

import difflib
import json
import warnings
from collections.abc import Iterable
from importlib import resources
from importlib.resources.abc import Traversable
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from ..errors import InputError
from ..files import write_bytes, write_text
from .document import from_document, layers_from_document, layers_to_document, to_document
from .layers import LayerTable
from .profile_set import ProfileSet

__all__ = [
    "ProfileWarning",
    "doubts",
    "load",
    "load_layers",
    "save",
    "save_layers",
    "shipped",
]

_FALL = 0.05  # noise of a good measurement: a larger fall of latency with the batch is a slip; a guess


class ProfileWarning(UserWarning):
    """A profile is usable, but a figure in it looks wrong."""


def shipped() -> tuple[str, ...]:
    """Names of the profile sets that come with the package."""
    folder = _data()
    return tuple(sorted(f.name[: -len(".json")] for f in folder.iterdir() if f.name.endswith(".json")))


def load(name_or_path: str | Path, *, device: str | None = None) -> ProfileSet:
    """A shipped profile set by name, or one from a file.

    Parameters
    ----------
    name_or_path : str or Path
        One of `shipped()`, or the path of a file that `save` wrote.
    device : str, optional
        The device type that the figures must hold for.

    Raises
    ------
    InputError
        If there is no such set (the message names the nearest), the file is not valid (every error of it, one a
        line), or it holds for another device.

    Warns
    -----
    ProfileWarning
        For each figure that `doubts` finds.
    """
    if isinstance(name_or_path, str) and name_or_path in shipped():
        where = f"{name_or_path}.json"
        text = _data().joinpath(where).read_text("utf-8")
    else:
        path = Path(name_or_path)
        where = str(path)
        if not path.is_file():
            raise InputError(_not_found(str(name_or_path)))
        text = _read_text(path)
    profiles = from_document(_parse(text, where), where)
    if device is not None and profiles.device != device:
        raise InputError(
            f"{where}: device: the profile holds for {profiles.device!r} (got {device!r} asked for); "
            "measure this device or choose another profile"
        )
    for doubt in doubts(profiles):
        warnings.warn(f"{where}: {doubt}", ProfileWarning, stacklevel=2)
    return profiles


def save(profiles: ProfileSet, path: str | Path) -> Path:
    """Write a set as JSON, whole or not at all; `load` reads back an equal one. Returns the path."""
    return write_text(path, _dump(to_document(profiles)))


def doubts(profiles: ProfileSet) -> list[str]:
    """Figures that are allowed but look wrong: a latency that falls by more than 5 % as the batch grows."""
    found: list[str] = []
    for name, profile in profiles.items():
        for config in profile.configs:
            rows = profile.stages[config].latency
            for small, large in pairwise(sorted(rows)):
                for k, (before, after) in enumerate(zip(rows[small], rows[large], strict=True)):
                    if after < (1 - _FALL) * before:
                        found.append(
                            f"models.{name}.configs.{config}: stage {k} falls from {before:.4g} s at batch {small} "
                            f"to {after:.4g} s at batch {large} ({after / before - 1:+.0%}); measure these cells again"
                        )
    return found


def save_layers(table: LayerTable, path: str | Path) -> Path:
    """Write a layer table: Parquet if `path` ends in ``.parquet`` (needs pyarrow), else JSON. Returns the path."""
    if Path(path).suffix == ".parquet":
        from .parquet import to_parquet

        return write_bytes(path, to_parquet(layers_to_document(table)))
    return write_text(path, _dump(layers_to_document(table)))


def load_layers(path: str | Path) -> LayerTable:
    """Read a layer table that `save_layers` wrote.

    Raises
    ------
    InputError
        If the file is missing or not valid; every error of it, one a line.
    """
    target = Path(path)
    if not target.is_file():
        raise InputError(f"{target}: no such file; expected a layer table that `save_layers` wrote")
    if target.suffix == ".parquet":
        from .parquet import from_parquet

        return layers_from_document(from_parquet(target), str(target))
    return layers_from_document(_parse(_read_text(target), str(target)), str(target))


def _data() -> Traversable:
    return resources.files(__name__.rpartition(".")[0]).joinpath("data")


def _not_found(name: str) -> str:
    if Path(name).is_dir():
        return f"{name}: expected a profile file (got a folder)"
    near = difflib.get_close_matches(name, shipped(), n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else "give a path or the name of a shipped set;"
    return f"profile {name!r}: no shipped set and no file of that name; {hint} shipped: {', '.join(shipped())}"


def _read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: byte {error.start}: not UTF-8 text (got {error.object[error.start]:#04x}); profiles are JSON"
        ) from None


def _parse(text: str, where: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=lambda pairs: _unique(pairs, where))
    except json.JSONDecodeError as error:
        raise InputError(
            f"{where}:{error.lineno}: column {error.colno}: not valid JSON: {error.msg}; is the file whole?"
        ) from None
    except RecursionError:
        raise InputError(f"{where}: not a profile: nested too deep") from None
    except ValueError as error:  # Python reads no integer of more than 4300 digits
        if isinstance(error, InputError):
            raise
        raise InputError(f"{where}: not a profile: holds an integer of thousands of digits") from None


def _unique(pairs: Iterable[tuple[str, Any]], where: str) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in pairs:
        if key in out:
            raise InputError(f"{where}: key {key!r} is given twice in one object; remove one of them")
        out[key] = value
    return out


def _dump(document: object, indent: int = 0) -> str:
    """JSON with one line for every list and for every object without objects in it: small, and diffs by cell."""
    if isinstance(document, dict):
        return _dump_object(cast("dict[str, object]", document), indent)
    if isinstance(document, list):
        items = cast("list[object]", document)
        if any(isinstance(v, dict) for v in items):
            pad = " " * (indent + 1)
            body = ",\n".join(f"{pad}{_dump(v, indent + 1)}" for v in items)
            return f"[\n{body}\n{' ' * indent}]"
    return json.dumps(document, ensure_ascii=False, allow_nan=False)


def _dump_object(document: dict[str, object], indent: int) -> str:
    if any(isinstance(v, dict | list) for v in document.values()):
        pad = " " * (indent + 1)
        body = ",\n".join(
            f"{pad}{json.dumps(k, ensure_ascii=False)}: {_dump(v, indent + 1)}" for k, v in document.items()
        )
        return f"{{\n{body}\n{' ' * indent}}}" + ("\n" if indent == 0 else "")
    return json.dumps(document, ensure_ascii=False, allow_nan=False)
