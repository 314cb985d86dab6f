"""Fields of a case by their dotted path, such as ``cluster.devices``."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ..errors import InputError
from .worlds import Case

__all__ = ["find_field", "paths", "set_fields"]

C = TypeVar("C", bound=Case)


def paths(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """All paths below a model, parts before what they hold."""
    for name, field in model.model_fields.items():
        yield prefix + name
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from paths(inner, f"{prefix}{name}.")


def find_field(model: type[BaseModel], name: str) -> str:
    """The full path of a field given by its path, or by its last word where that is unique.

    Raises
    ------
    InputError
        If there is none; names the nearest.
    """
    known = list(paths(model))
    if name in known:
        return name
    if name.startswith("planner.options."):
        return name
    ends = [path for path in known if path.endswith(f".{name}")]
    if len(ends) == 1:
        return ends[0]
    near = difflib.get_close_matches(name, [*known, *(p.rpartition(".")[2] for p in known)], n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"fields: {', '.join(known)}"
    raise InputError(f"no field {name!r}; {hint}")


def set_fields(case: C, values: Mapping[str, Any]) -> C:
    """A case with other values at some paths, checked anew.

    Raises
    ------
    InputError
        If it is not valid.
    """
    said = case.model_dump(mode="python", exclude_unset=True)
    for path, value in values.items():
        place = said
        *folders, last = path.split(".")
        for folder in folders:
            place = place.setdefault(folder, {})
        place[last] = value
    try:
        return type(case).model_validate(said)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or next(iter(values), "case")
        raise InputError(f"{where}: {first['msg']} (got {first['input']!r})") from None
