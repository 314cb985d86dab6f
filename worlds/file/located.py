"""Errors that name a field of a case, with the line of the study file that set it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel

from ...errors import InputError
from ..fields import find_field, paths, steps
from .document import YamlDocument
from .errors import Location

__all__ = ["located"]


def located(error: InputError, document: YamlDocument, kind: type[BaseModel]) -> InputError:
    """The error with ``file:line:`` before each of its lines that begins with a field's path.

    Parameters
    ----------
    error : InputError
        What is wrong, such as a file that is not there; ``path: what`` on each line.
    document : YamlDocument
        The study file.
    kind : type
        The world's case.
    """
    known = set(paths(kind))
    said: list[str] = []
    for text in str(error).splitlines():
        path, _, what = text.partition(": ")
        line = document.line(_set_at(document.data, kind, path, what)) if path in known and what else None
        said.append(f"{document.where}:{line}: {text}" if line else text)
    return InputError("\n".join(said))


def _set_at(data: Mapping[str, Any], kind: type[BaseModel], path: str, what: str) -> Location:
    """Where a file sets a field: at an axis, at a planner, or in the base case."""
    axes = data.get("axes")
    for name, values in cast("dict[str, Any]", axes).items() if isinstance(axes, dict) else ():
        if _is(kind, name, path):
            return ("axes", name, _index(values, what))
    points = data.get("points")
    for i, row in enumerate(cast("list[Any]", points)) if isinstance(points, list) else ():
        for name in cast("dict[str, Any]", row):
            if _is(kind, name, path) and _says(what, row[name]):
                return ("points", i, name)
    if path.startswith("planner."):
        return ("planners", _index(data.get("planners"), what))
    return steps(kind, path)


def _is(kind: type[BaseModel], name: str, path: str) -> bool:
    try:
        return find_field(kind, name) == path
    except InputError:
        return False


def _index(values: Any, what: str) -> int:
    """Of several values, the one that a message names; -1, which is no place, if it names none."""
    if not isinstance(values, list):
        return -1
    entries = cast("list[Any]", values)
    return next((i for i, value in enumerate(entries) if _says(what, value)), -1)


def _says(what: str, value: Any) -> bool:
    if isinstance(value, dict):
        return any(_says(what, inner) for inner in cast("dict[str, Any]", value).values())
    return isinstance(value, str | int | float) and (repr(value) in what or f"{value}:" in what)
