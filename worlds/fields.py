"""Fields of a case by their dotted path, such as ``cluster.devices``."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError

from ..errors import InputError
from ..wording import dotted, nearest
from . import Case, Circumstance
from .file.errors import Location, explain

__all__ = [
    "checked",
    "find_field",
    "holds_whole_numbers",
    "is_circumstance",
    "paths",
    "place",
    "plain",
    "section_of",
    "set_fields",
    "steps",
    "value_at",
]

C = TypeVar("C", bound=Case)


def paths(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """All paths below a model, sections before what they hold."""
    for name, field in model.model_fields.items():
        yield prefix + name
        inner = section_of(field.annotation)
        if inner is not None:
            yield from paths(inner, f"{prefix}{name}.")


def is_circumstance(model: type[BaseModel], path: str) -> bool:
    """Whether what stands at a path is met and not decided: its field, or a section above it, is marked so."""
    inner: Any = model
    for step in steps(model, path):
        section = section_of(inner)
        if section is None:
            return False
        field = section.model_fields[step]
        if any(isinstance(mark, Circumstance) for mark in field.metadata):
            return True
        inner = field.annotation
    return False


def find_field(model: type[BaseModel], name: str) -> str:
    """The full path of a field given by its path, or by its last word where that is unique.

    What a mapping holds is named below it: ``planner.options.fast``, or ``options.fast``.

    Raises
    ------
    InputError
        If there is none, or several; or if it is a section, which holds fields. Names the nearest.
    """
    known = list(paths(model))
    words = name.split(".")
    for n in range(len(words), 0, -1):
        head, rest = ".".join(words[:n]), ".".join(words[n:])
        ends = [head] if head in known else [path for path in known if path.endswith(f".{head}")]
        if len(ends) > 1:
            raise InputError(f"{name!r} may be {' or '.join(ends)}; write which")
        if not ends:
            continue
        inside = [path for path in known if path.startswith(f"{ends[0]}.")]
        if inside and not rest:
            raise InputError(f"{name!r} is a section; name a field of it: {', '.join(inside)}")
        if not rest:
            return ends[0]
        if not inside and _value_type(_annotation(model, ends[0])) is not None:
            return f"{ends[0]}.{rest}"
    fields = [path for path in known if not any(other.startswith(f"{path}.") for other in known)]
    near = nearest(name, [*fields, *(p.rpartition(".")[2] for p in fields)])
    hint = f"did you mean {near!r}?" if near else f"fields: {', '.join(fields)}"
    raise InputError(f"no field {name!r}; {hint}")


@lru_cache(maxsize=1024)
def steps(model: type[BaseModel], path: str) -> tuple[str, ...]:
    """The keys that lead to a path: ``workload.split.bert-1.3b`` -> workload, split, bert-1.3b."""
    found: tuple[str, ...] = ()
    inner: type[BaseModel] | None = model
    rest = path
    while rest and inner is not None:
        word, _, rest = rest.partition(".")
        found += (word,)
        inner = section_of(inner.model_fields[word].annotation)
    return (*found, rest) if rest else found


def holds_whole_numbers(model: type[BaseModel], path: str) -> bool | None:
    """Whether a field takes whole numbers and no others; None where the model does not say."""
    kinds = set(_choices(_annotation(model, path)))
    return None if Any in kinds else int in kinds and float not in kinds


def value_at(case: Case, path: str) -> Any:
    """The value of a field, as plain data; None where its section is left out."""
    value: Any = case
    for step in steps(type(case), path):
        if value is None:
            return None
        value = cast("Mapping[str, Any]", value)[step] if isinstance(value, Mapping) else getattr(value, step)
    return plain(value)


def plain(value: Any) -> Any:
    """A value as JSON would give it back: lists, dicts, Python's own numbers.

    Raises
    ------
    InputError
        If it holds anything else.
    """
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_unset=True)
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, Sequence):
        return [plain(inner) for inner in cast("Sequence[Any]", value)]
    if isinstance(value, int | float):
        return float(value) if isinstance(value, float) else int(value)
    if hasattr(value, "tolist"):  # numpy's numbers and arrays
        return plain(value.tolist())
    if hasattr(value, "__fspath__"):
        return str(value)
    raise InputError(f"expected text, numbers, true, false, lists or mappings (got {type(value).__name__})")


def place(said: Mapping[str, Any], at: Sequence[str], value: Any) -> dict[str, Any]:
    """`said` with another value below; shares with it what does not change."""
    first, *rest = at
    if rest:
        inner = said.get(first)
        value = place(cast("dict[str, Any]", inner) if isinstance(inner, dict) else {}, rest, value)
    return {**said, first: value}


def checked(model: type[C], said: Mapping[str, Any]) -> tuple[C | None, list[tuple[Location, str]]]:
    """The case that plain data describes, or all that is wrong with it."""
    try:
        return model.model_validate_json(json.dumps(said), strict=True), []
    except ValidationError as error:
        return None, [_of_its_field(model, *one) for one in explain(error, model, said)]


def _of_its_field(model: type[BaseModel], loc: Location, what: str) -> tuple[Location, str]:
    """A rule of a section that begins with the name of a field of it is about that field."""
    section: type[BaseModel] | None = model
    for step in loc:
        field = None if section is None else section.model_fields.get(str(step))
        section = None if field is None else section_of(field.annotation)
    name, colon, rest = what.partition(": ")
    if section is None or not colon or name.split(".")[0] not in section.model_fields:
        return loc, what
    return (*loc, *name.split(".")), rest


def set_fields(case: C, values: Mapping[str, Any]) -> C:
    """A case with other values at some paths, checked anew.

    Raises
    ------
    InputError
        If it is not valid.
    """
    said = case.model_dump(mode="json", exclude_unset=True)
    for path, value in values.items():
        said = place(said, steps(type(case), path), plain(value))
    built, wrong = checked(type(case), said)
    if built is None:
        raise InputError("; ".join(f"{dotted(loc) or 'case'}: {what}" for loc, what in wrong))
    return built


def _annotation(model: type[BaseModel], path: str) -> Any:
    """The type of what stands at a path."""
    inner: Any = model
    for step in steps(model, path):
        section = section_of(inner)
        inner = _value_type(inner) if section is None else section.model_fields[step].annotation
    return inner


def section_of(annotation: Any) -> type[BaseModel] | None:
    """The model of a section, which may be one that can be left out; None of what is no section."""
    choices = [choice for choice in _choices(annotation) if choice is not type(None)]
    only = choices[0] if len(choices) == 1 else None
    return only if isinstance(only, type) and issubclass(only, BaseModel) else None


def _choices(annotation: Any) -> Iterator[Any]:
    """The types that a union, or a type with constraints, leaves to choose from."""
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        for inner in typing.get_args(annotation):
            yield from _choices(inner)
    elif origin is typing.Annotated:
        yield from _choices(typing.get_args(annotation)[0])
    else:
        yield annotation


def _value_type(annotation: Any) -> Any:
    """Type of what a mapping holds; None for what is no mapping."""
    for choice in _choices(annotation):
        origin = typing.get_origin(choice)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return typing.get_args(choice)[1]
    return None
