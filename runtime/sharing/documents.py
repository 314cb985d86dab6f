"""Worlds, apps, views and results as JSON, for other processes and for files. Floats come back exactly."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from ...errors import InputError
from ...files import readable, write_text
from ...simulator.sharing.world import SharingWorld
from ...wording import amiss, dotted

__all__ = ["from_document", "load_world_document", "read_document", "save_world", "to_document", "to_text"]

T = TypeVar("T")


def to_document(thing: Any) -> Any:
    """A frozen dataclass as plain JSON values; what stands at its default is left out, infinity is ``"inf"``."""
    return _plain(TypeAdapter[Any](cast("Any", type(thing))).dump_python(thing, exclude_defaults=True))


def from_document(kind: type[T], document: Any, where: str) -> T:
    """The dataclass that a document says.

    Parameters
    ----------
    kind : type
        Which dataclass.
    document : Any
        What `to_document` made, or somebody wrote.
    where : str
        What errors call it.

    Raises
    ------
    InputError
        The first thing that is wrong in it: a key that is unknown or missing, a value that cannot be.
    """
    adapter = TypeAdapter[T](kind)
    try:
        made = adapter.validate_python(document)
    except ValidationError as error:
        first = error.errors()[0]
        place = dotted(first["loc"])
        raise InputError(f"{where}: {place + ': ' if place else ''}{amiss(first)}") from None
    unknown = _unknown(document, adapter.dump_python(made))
    if unknown is not None:
        raise InputError(f"{where}: {unknown}: unknown key; take it out, or mend its spelling")
    return made


def to_text(thing: Any) -> str:
    """`to_document` as the text of a JSON file."""
    return json.dumps(to_document(thing), indent=1) + "\n"


def read_document(path: str | Path) -> Any:
    """The values of a JSON file.

    Raises
    ------
    InputError
        If there is no such file, or it is no JSON.
    """
    try:
        return json.loads(readable(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}; give the path of a JSON file") from None
    except ValueError as error:
        raise InputError(f"{path}: no JSON: {error}") from None


def save_world(world: SharingWorld, path: str | Path) -> Path:
    """Write a world where another process can read it.

    Raises
    ------
    InputError
        If nothing can be written there, or the world is one draw of times that vary: real GPUs have times of their own.
    """
    if world.speeds is not None:
        raise InputError("world: speeds: a world that runs for real draws no times; leave times: drawn out")
    return write_text(path, to_text(world))


def load_world_document(path: str | Path) -> SharingWorld:
    """Read what `save_world` wrote.

    Raises
    ------
    InputError
        If there is no such file, it is no JSON, or no world.
    """
    return from_document(SharingWorld, read_document(path), str(path))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in cast("list[Any]", value)]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no infinity; pydantic reads the word
    if isinstance(value, Path):
        return str(value)
    return value


def _unknown(said: Any, known: Any, at: str = "") -> str | None:
    """The first key of a document that what was made of it does not have."""
    if isinstance(said, dict) and isinstance(known, Mapping):
        known = cast("Mapping[str, Any]", known)
        for key, value in cast("dict[str, Any]", said).items():
            place = f"{at}.{key}".lstrip(".")
            if key not in known:
                return place
            found = _unknown(value, known[key], place)
            if found is not None:
                return found
    elif isinstance(said, list) and isinstance(known, list | tuple):
        for number, (value, other) in enumerate(zip(cast("list[Any]", said), cast("list[Any]", known), strict=True)):
            found = _unknown(value, other, f"{at}[{number}]")
            if found is not None:
                return found
    return None
