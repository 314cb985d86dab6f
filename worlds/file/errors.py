"""pydantic's errors, as lines that who wrote the file understands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from ...wording import amiss, causes, expected, fields_at, nearest

__all__ = ["explain", "unknown_key"]

Location = tuple[str | int, ...]


def explain(error: ValidationError, model: type[BaseModel], data: Any) -> list[tuple[Location, str]]:
    """Path to each thing that is wrong, and what is.

    Parameters
    ----------
    error : ValidationError
        What pydantic says.
    model : type
        The model that was built.
    data : plain data
        What it was built from; tells which steps of pydantic's paths are real.
    """
    expected: dict[Location, list[str]] = {}
    got: dict[Location, str] = {}
    ours: set[Location] = set()  # where the model itself says what is wrong
    choices: set[Location] = set()  # where several types were tried
    for one in causes(error.errors(include_url=False)):
        raw = tuple(one["loc"])
        loc = _real(raw, data, one["type"])
        if len(loc) < len(raw):
            choices.add(loc)
        what, value = _say(one, raw, model)
        if one["type"] == "value_error" and loc not in ours:
            ours.add(loc)
            expected[loc], got[loc] = [what], value
        elif (loc not in ours or one["type"] == "value_error") and what not in expected.setdefault(loc, []):
            expected[loc].append(what)
            got[loc] = value
    # Of the types that were tried, the one that got furthest is the one that was meant.
    inner = {loc for loc in choices if any(len(o) > len(loc) and o[: len(loc)] == loc for o in expected)}
    return [(loc, _joined(expected[loc]) + got[loc]) for loc in expected if loc not in inner]


def unknown_key(name: str, known: Sequence[str]) -> str:
    """What to say of a key that nobody knows."""
    near = nearest(name, known)
    return "unknown key; " + (f"did you mean {near!r}?" if near else f"known: {', '.join(known)}")


def _real(raw: Location, data: Any, kind: str) -> Location:
    """A path without the steps that name a type tried, which are not in the data."""
    loc: Location = ()
    for i, step in enumerate(raw):
        if isinstance(data, dict) and isinstance(step, str) and step in data:
            data = cast("dict[str, Any]", data)[step]
        elif isinstance(data, list | tuple) and isinstance(step, int) and step < len(cast("list[Any]", data)):
            data = cast("list[Any]", data)[step]
        elif not (i == len(raw) - 1 and kind == "missing"):
            continue
        loc += (step,)
    return loc


def _say(one: Any, raw: Location, model: type[BaseModel]) -> tuple[str, str]:
    """What is wrong, and what was got (empty where the first says it)."""
    if one["type"] == "extra_forbidden":
        return unknown_key(str(raw[-1]), fields_at(model, raw[:-1])), ""
    what = expected(one)
    got = amiss(one).removeprefix(what)
    if what == "should be a list" and isinstance(one["input"], str | int | float):
        got += f"; write [{one['input']}]"
    return what, got


def _joined(said: Sequence[str]) -> str:
    """``should be text`` and ``should be a list`` -> ``should be text or a list``."""
    first, *others = said
    return " or ".join([first, *(o.removeprefix("should be ") for o in others)])
