"""How errors about files are worded: dotted paths, short values, the nearest known name."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

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
    """Names of the fields of the entry at `loc` below `model`. Steps that choose one model of a union, by its class or
    by what a literal field of it says, may stand in `loc`; where they do not, the fields of all are given."""
    models = [model]
    for step in loc:
        inner = [m for one in models for field in _named(one, step) for m in models_in(field.annotation)]
        chosen = [one for one in models if step == one.__name__ or step in _tags(one)]
        models = inner or chosen or models  # an index, or a key of a mapping, leads to an entry of the same kind
    return list(dict.fromkeys(field.alias or name for one in models for name, field in one.model_fields.items()))


def _named(model: type[BaseModel], step: str | int) -> list[FieldInfo]:
    return [field for name, field in model.model_fields.items() if step in (name, field.alias)]


def _tags(model: type[BaseModel]) -> list[Any]:
    """What the literal fields of a model say."""
    literals = (f.annotation for f in model.model_fields.values() if typing.get_origin(f.annotation) is typing.Literal)
    return [tag for literal in literals for tag in typing.get_args(literal)]
