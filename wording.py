"""How errors about files are worded: dotted paths, short values, the nearest known name."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel

__all__ = ["dotted", "fields_at", "models_in", "nearest", "short"]

Location = Sequence[str | int]


def dotted(loc: Location) -> str:
    """``("groups", 3, "op")`` -> ``"groups[3].op"``."""
    return "".join(f"[{x}]" if isinstance(x, int) else f".{x}" for x in loc).lstrip(".")


def short(value: Any) -> str:
    """A value as an error shows it: at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known name that `name` most probably meant; None if none is near. Case does not matter."""
    names = {k.lower(): k for k in known}
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=cutoff)
    return names[near[0]] if near else None


def models_in(annotation: Any) -> Iterable[type[BaseModel]]:
    """The pydantic models that a field's type holds."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in typing.get_args(annotation):
        yield from models_in(inner)


def fields_at(model: type[BaseModel], loc: Location) -> list[str]:
    """Names of the fields of the entry at `loc` below `model`."""
    for step in loc:
        field = model.model_fields.get(str(step)) if isinstance(step, str) else None
        if field is not None:  # an index, or a key of a mapping, leads to an entry of the same kind
            model = next(iter(models_in(field.annotation)), model)
    return list(model.model_fields)
