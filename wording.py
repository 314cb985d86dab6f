"""How errors about files and options are worded: dotted paths, short values, the nearest known name, what a value
should be."""

from __future__ import annotations

import difflib
import re
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

__all__ = ["amiss", "causes", "dotted", "expected", "fields_at", "models_in", "nearest", "short"]

Location = Sequence[str | int]

EXPECTED = {
    "int_type": "a whole number", "int_from_float": "a whole number", "int_parsing": "a whole number",
    "int_parsing_size": "a whole number of fewer digits", "float_type": "a number", "float_parsing": "a number",
    "finite_number": "a finite number", "string_type": "text", "bool_type": "true or false",
    "bool_parsing": "true or false", "path_type": "a path", "tuple_type": "a list", "list_type": "a list",
    "set_type": "a list", "frozen_set_type": "a list", "iterable_type": "a list", "dict_type": "a mapping",
    "mapping_type": "a mapping", "model_type": "a mapping", "model_attributes_type": "a mapping",
    "dataclass_type": "a mapping", "none_required": "nothing",
}  # fmt: skip
"""Type of one of pydantic's errors -> what was expected, in words of those who write files."""

CHOICE = re.compile(r"'([^']*)'")
"""One of the words that pydantic lists where a literal is expected."""


def dotted(loc: Location) -> str:
    """A location as text: ``("groups", 3, "op")`` becomes ``"groups[3].op"``."""
    return "".join(f"[{x}]" if isinstance(x, int) else f".{x}" for x in loc).lstrip(".")


def short(value: Any) -> str:
    """A value as messages show it: at most 60 characters, so that the message stays on a line or two."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known name that `name` most probably meant, or None. Case does not matter.

    The default cutoff is difflib's own.
    """
    names = {k.lower(): k for k in known}
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=cutoff)
    return names[near[0]] if near else None


def expected(error: Mapping[str, Any]) -> str:
    """What one of pydantic's errors says that a value should be, in our words.

    Parameters
    ----------
    error : mapping
        One of ``ValidationError.errors()``.

    Returns
    -------
    str
        Such as ``should be a whole number``; what a check of our own says stays as it is.
    """
    kind, message, context = error["type"], str(error["msg"]), error.get("ctx", {})
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        return "unknown key"
    if kind in EXPECTED:
        return f"should be {EXPECTED[kind]}"
    if kind == "literal_error":
        return f"should be {context['expected']}"
    for end, bound in (("too_short", "min_length"), ("too_long", "max_length")):
        if kind.endswith(end):
            count, unit = context[bound], "letter" if kind.startswith("string") else "item"
            most = "at least" if end == "too_short" else "at most"
            return f"should have {most} {count} {unit}{'' if count == 1 else 's'}"
    if kind == "value_error":
        return message.removeprefix("Value error, ")
    message = message.removeprefix("Input ")
    return message[0].lower() + message[1:]


def causes(errors: Sequence[Any]) -> list[Any]:
    """Pydantic's errors, without those that say that a list is too short because its items are wrong."""
    places = [tuple(e["loc"]) for e in errors]

    def caused(e: Any) -> bool:
        size = len(e["loc"])
        return e["type"] == "too_short" and any(len(p) > size and p[:size] == tuple(e["loc"]) for p in places)

    return [e for e in errors if not caused(e)]


def amiss(error: Mapping[str, Any]) -> str:
    """`expected`, and what was given: ``should be a number (got 'x')``. Of a misspelt word, the nearest that is known.

    Parameters
    ----------
    error : mapping
        One of ``ValidationError.errors()``.
    """
    what = expected(error)
    if error["type"] in ("missing", "extra_forbidden", "value_error"):
        return what
    near = nearest(str(error["input"]), _choices(error)) if isinstance(error["input"], str) else None
    got = "nothing" if error["input"] is None else short(error["input"])
    return f"{what} (got {got})" + (f"; did you mean {near!r}?" if near else "")


def _choices(error: Mapping[str, Any]) -> list[str]:
    """The words that would do, where nothing else does."""
    return CHOICE.findall(str(error["ctx"]["expected"])) if error["type"] == "literal_error" else []


def models_in(annotation: Any) -> Iterable[type[BaseModel]]:
    """The pydantic models inside a field's type."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in typing.get_args(annotation):
        yield from models_in(inner)


def fields_at(model: type[BaseModel], loc: Location) -> list[str]:
    """Names of the fields of the entry at `loc` below `model`.

    `loc` may hold steps that choose one model of a union, by its class name or by the value of a literal field. Without
    such a step, the fields of all models of the union are returned.
    """
    models = [model]
    for step in loc:
        inner = [m for one in models for field in _named(one, step) for m in models_in(field.annotation)]
        chosen = [one for one in models if step == one.__name__ or step in _tags(one)]
        models = inner or chosen or models  # an index, or a key of a mapping, leads to an entry of the same kind
    return list(dict.fromkeys(field.alias or name for one in models for name, field in one.model_fields.items()))


def _named(model: type[BaseModel], step: str | int) -> list[FieldInfo]:
    return [field for name, field in model.model_fields.items() if step in (name, field.alias)]


def _tags(model: type[BaseModel]) -> list[Any]:
    """Values of the literal fields of a model, which tell it from others of a union."""
    literals = (f.annotation for f in model.model_fields.values() if typing.get_origin(f.annotation) is typing.Literal)
    return [tag for literal in literals for tag in typing.get_args(literal)]
