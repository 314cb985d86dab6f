"""Leaves: the fields of a case, or of a door's options, that hold values; their short names, and values from text.

Flags, their help, the table of fields in the documentation, commented examples and completion all come from these, so
that a thing has one name everywhere.
"""

from __future__ import annotations

import json
import re
import types
import typing
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, cast

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from ..errors import InputError
from .fields import section_of
from .file.values import Trap, scalar
from .world import Circumstance

__all__ = ["Kind", "Leaf", "leaves", "parse"]

Kind = Literal["whole number", "number", "true or false", "text", "list", "mapping", "value"]

SHOWN = 60
"""Letters of a wrong value that a message shows."""

POWER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+")
"""A number with a power of ten."""

SIGNS = {Gt: ">", Ge: ">=", Lt: "<", Le: "<="}


@dataclass(frozen=True, slots=True)
class Leaf:
    """One field that holds a value.

    Parameters
    ----------
    path : str
        Where it stands, such as ``workload.rate``.
    name : str
        What it is called where that is unambiguous, such as ``rate``.
    says : str
        What it is, with its unit: one sentence.
    kinds : tuple of str
        What it takes.
    choices : tuple of str
        Words that it takes, if these are all.
    bounds : str
        Such as ``> 0, <= 65536``; empty if there are none.
    default : object
        Its value if left out; None if there is none.
    required : bool
        Whether something must be said.
    circumstance : bool
        Whether we meet it, and do not choose it.
    """

    path: str
    name: str
    says: str
    kinds: tuple[Kind, ...]
    choices: tuple[str, ...]
    bounds: str
    default: Any
    required: bool
    circumstance: bool

    @property
    def flag(self) -> str:
        """As an option of the command line."""
        return "--" + self.name.replace("_", "-").replace(".", "-")


@lru_cache(maxsize=64)  # a command asks for those of its case several times
def leaves(model: type[BaseModel]) -> tuple[Leaf, ...]:
    """All leaves of a model, in its order.

    The short name of a field is its last word where no other leaf has it; that of the `name` of a section is the
    section's own: ``planner.name`` is called ``planner``. Else it is the whole path.
    """
    found = list(_walk(model, "", needed=True, met=False))
    last = Counter(_word(leaf.path) for leaf in found)
    return tuple(
        Leaf(leaf.path, _word(leaf.path) if last[_word(leaf.path)] == 1 else leaf.path, *_rest(leaf)) for leaf in found
    )


def _word(path: str) -> str:
    head, _, last = path.rpartition(".")
    return head.rpartition(".")[2] if last == "name" and head else last


def _rest(leaf: Leaf) -> tuple[Any, ...]:
    return (leaf.says, leaf.kinds, leaf.choices, leaf.bounds, leaf.default, leaf.required, leaf.circumstance)


def _walk(model: type[BaseModel], prefix: str, *, needed: bool, met: bool) -> Iterator[Leaf]:
    for name, field in model.model_fields.items():
        circumstance = met or any(isinstance(mark, Circumstance) for mark in field.metadata)
        inner = section_of(field.annotation)
        if inner is not None:
            must = needed and field.is_required()
            yield from _walk(inner, f"{prefix}{name}.", needed=must, met=circumstance)
            continue
        default = None if field.default is PydanticUndefined else field.default
        kinds, choices = _taken(field.annotation)
        yield Leaf(
            f"{prefix}{name}", name, field.description or "", kinds, choices, _bounds(field), default,
            needed and field.is_required(), circumstance,
        )  # fmt: skip


def _taken(annotation: Any) -> tuple[tuple[Kind, ...], tuple[str, ...]]:
    """What a type takes, and its words if these are all."""
    kinds, words = dict[Kind, None](), list[str]()
    for choice in _choices(annotation):
        origin = typing.get_origin(choice)
        if origin is Literal:
            words += [str(word) for word in typing.get_args(choice)]
            kinds["text"] = None
        elif isinstance(origin, type) and issubclass(origin, Mapping):
            kinds["mapping"] = None
        elif isinstance(origin, type) and issubclass(origin, Sequence):
            kinds["list"] = None
        else:
            plain: dict[Any, Kind] = {
                bool: "true or false",
                int: "whole number",
                float: "number",
                str: "text",
                Path: "text",
            }
            if choice is not type(None):
                kinds[plain.get(choice, "value")] = None
    only = tuple(kinds) == ("text",) and len(words) > 0 and not any(c is str for c in _choices(annotation))
    return tuple(kinds), tuple(words) if only else ()


def _choices(annotation: Any) -> Iterator[Any]:
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        for inner in typing.get_args(annotation):
            yield from _choices(inner)
    elif origin is typing.Annotated:
        yield from _choices(typing.get_args(annotation)[0])
    else:
        yield annotation


def _bounds(field: FieldInfo) -> str:
    return ", ".join(_bounds_in([*field.metadata, *_marks(field.annotation)]))


def _marks(annotation: Any) -> Iterator[Any]:
    """What `Annotated` says of the choices of a union."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        for inner in typing.get_args(annotation):
            yield from _marks(inner)
    elif typing.get_origin(annotation) is typing.Annotated:
        inner, *marks = typing.get_args(annotation)
        yield from marks
        yield from _marks(inner)


def _bounds_in(marks: Sequence[Any]) -> Iterator[str]:
    for mark in marks:
        for kind, sign in SIGNS.items():
            if isinstance(mark, kind):
                yield f"{sign} {next(iter(vars(mark).values())) if hasattr(mark, '__dict__') else _only(mark)}"
        if isinstance(mark, FieldInfo):
            yield from _bounds_in(mark.metadata)


def _only(mark: Any) -> Any:
    return next(getattr(mark, name) for name in ("gt", "ge", "lt", "le") if hasattr(mark, name))


def parse(leaf: Leaf, text: str) -> Any:
    """A value from text of the command line: ``8``, ``99 %``, ``1,8``, ``beam=2,eta=3``.

    A list is written with commas, a mapping as NAME=VALUE with commas. What only takes text is taken as it stands.

    Raises
    ------
    InputError
        On what cannot be such a value.
    """
    kinds = set(leaf.kinds)
    if kinds == {"text"}:
        return text
    if kinds & {"list", "mapping"} and text.lstrip().startswith(("[", "{")):
        return _json(leaf, text)
    if "mapping" in kinds and "=" in text:
        return _mapping(leaf, text)
    if "list" in kinds and ("," in text or not kinds & {"text", "value", "number", "whole number"}):
        return [_scalar(leaf, word.strip()) for word in text.split(",") if word.strip()]
    if kinds == {"mapping"}:
        raise InputError(f"{leaf.flag}: expected NAME=VALUE, several with commas (got {text!r})")
    return _scalar(leaf, text)


def _mapping(leaf: Leaf, text: str) -> dict[str, Any]:
    """``beam=2,selection=greedy``; the value of one name may be a list: ``tp=1,2,pp=1``, or ``tp=[1,2],pp=1``."""
    found: dict[str, Any] = {}
    name = ""
    for word in _words(text):
        head, equals, value = word.partition("=")
        if equals:
            name = head.strip()
            if not name:
                raise InputError(f"{leaf.flag}: expected NAME=VALUE (got {word!r})")
            if name in found:
                raise InputError(f"{leaf.flag}: {name} is given twice")
            found[name] = _scalar(leaf, value.strip())
        elif "list" in leaf.kinds:  # a model without a count, among some that have one
            found[word.strip()] = 1
        elif not name:
            raise InputError(f"{leaf.flag}: expected NAME=VALUE (got {word!r})")
        else:
            before = found[name]
            found[name] = [*(cast("list[Any]", before) if isinstance(before, list) else [before]), _scalar(leaf, head)]
    return found


def _words(text: str) -> list[str]:
    """What stands between commas; those within brackets are of one word."""
    words, depth = [""], 0
    for letter in text:
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth == 0:
            words.append("")
        else:
            words[-1] += letter
    return words


def _json(leaf: Leaf, text: str) -> Any:
    """A list or mapping as JSON writes it."""
    try:
        return json.loads(text)
    except (RecursionError, ValueError):  # numbers of thousands of digits are ValueErrors too
        shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
        raise InputError(f"{leaf.flag}: expected a list or a mapping as JSON writes it (got {shown!r})") from None


def _scalar(leaf: Leaf, text: str) -> Any:
    if text.lstrip().startswith(("[", "{")):
        return _json(leaf, text)
    if POWER.fullmatch(text.strip()):  # YAML 1.1 reads 1e3 as text; whoever types it means a number
        return float(text)
    try:
        value = scalar(text.strip(), plain=True)
    except Trap as trap:
        raise InputError(f"{leaf.flag}: {trap}") from None
    if (
        isinstance(value, int)
        and not isinstance(value, bool)
        and {"number"} == {"number", "whole number"} & set(leaf.kinds)
    ):
        return float(value)
    return value
