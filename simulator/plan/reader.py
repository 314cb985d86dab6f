"""From the text of a plan file to its entries: every error of the file at once, each with its line."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError

from ...errors import InputError
from ...wording import amiss, causes, dotted, fields_at, nearest, short
from .entries import Problem

__all__ = ["parsed", "piece", "pieces", "problem_line", "read"]

M = TypeVar("M", bound=BaseModel)


def read(
    text: str,
    where: str,
    plan: type[M],
    format: str,
    version: int,
    *,
    key: str,
    between: Callable[[Mapping[str, Any]], list[Problem]],
) -> M:
    """Check the text of a plan file and build the `plan` that it holds.

    Parameters
    ----------
    text : str
        JSON.
    where : str
        Name of the file, for errors.
    plan : type
        The pydantic model of the whole file.
    format, version : str, int
        What the file must say that it is.
    key : str
        Where it says its format.
    between : callable
        The parsed file -> what is wrong between entries that are each right by themselves.

    Raises
    ------
    InputError
        One line for each error: ``file:line: path: what is wrong (got value); how to mend``.
    """
    found, problems = _parse(text, where)
    data = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    if data.get(key) != format:
        raise InputError(f'{where}: not a Meshwright plan: no "{key}": "{format}" in it')
    if type(data.get("version")) is not int or data["version"] != version:
        raise InputError(
            f"{where}: version: this Meshwright reads version {version} (got {short(data.get('version'))}); "
            "plan again, or use the Meshwright that wrote it"
        )
    try:
        built = plan.model_validate_json(text, strict=True)
    except ValidationError as error:
        problems += [_problem(e, plan) for e in causes(error.errors(include_url=False)) if e["loc"]]
        problems += between(data)
    else:
        if not problems:
            return built
    lines = _line_numbers(text, [loc for loc, _ in problems])
    raise InputError(
        "\n".join(
            f"{where}{f':{line}' if line else ''}: {dotted(loc) or 'plan'}: {what}"
            for (loc, what), line in zip(problems, lines, strict=True)
        )
    )


def parsed(content: bytes, where: str) -> Any:
    """The JSON value of a file.

    Raises
    ------
    InputError
        If it is no UTF-8, no JSON, or nested beyond what anybody writes; with its line where one is to blame.
    """
    try:
        return _parse(content.decode("utf-8"), where)[0]
    except UnicodeDecodeError as error:
        said = f"not UTF-8 text (byte {error.start}: {error.reason})"
        raise InputError(f"{where}: not a Meshwright plan: {said}") from None


def _parse(text: str, where: str) -> tuple[Any, list[Problem]]:
    """The JSON value and the keys that stand twice in one object (of which JSON readers keep one in silence)."""
    twice: list[Problem] = []

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        twice.extend(((key,), "this key stands twice in one object") for key in {k for k in keys if keys.count(k) > 1})
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=build), twice
    except json.JSONDecodeError as error:
        ended = error.msg.startswith("Unterminated") or not text[error.pos :].strip()
        cut = "the file ends too early; was it cut off?" if ended else f"column {error.colno}"
        raise InputError(f"{where}:{error.lineno}: not JSON: {error.msg} ({cut})") from None
    except RecursionError:
        raise InputError(f"{where}: not a Meshwright plan: nested too deep") from None
    except ValueError:  # Python reads no integer of more than 4300 digits
        raise InputError(f"{where}: not a Meshwright plan: holds an integer of thousands of digits") from None


def _problem(error: Any, plan: type[BaseModel]) -> Problem:
    loc, kind = tuple(error["loc"]), error["type"]
    if kind == "extra_forbidden":
        known = fields_at(plan, loc[:-1])
        near = nearest(str(loc[-1]), known)
        return loc, "unknown key; " + (f"did you mean {near!r}?" if near else f"known: {', '.join(known)}")
    return loc, amiss(error)


def problem_line(error: Any) -> str:
    """One of pydantic's errors about a plan as one line."""
    loc, what = _problem(error, BaseModel)
    return f"{dotted(loc) or 'plan'}: {what}"


def piece(kind: type[M], value: Any) -> M | None:
    """An entry by itself, None if it is wrong (which is reported elsewhere)."""
    try:
        return kind.model_validate_json(json.dumps(value), strict=True)
    except ValidationError:
        return None


def pieces(kind: type[M], values: Any) -> list[M | None]:
    """The entries of a list by themselves; of what is no list none."""
    return [piece(kind, value) for value in cast("list[Any]", values)] if isinstance(values, list) else []


def _line_numbers(text: str, locations: Sequence[Sequence[str | int]]) -> list[int | None]:
    """Line of each location. JSON is YAML, and PyYAML keeps the positions; None where they disagree."""
    import yaml

    try:
        reader: Any = yaml
        root: Any = reader.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return [None] * len(locations)
    return [_line(root, loc) for loc in locations]


def _line(node: Any, loc: Sequence[str | int]) -> int | None:
    for step in loc:
        inner = None
        if node.id == "sequence" and isinstance(step, int) and step < len(node.value):
            inner = node.value[step]
        elif node.id == "mapping":
            inner = next((value for key, value in node.value if key.value == str(step)), None)
        if inner is None:  # what is missing is missing from this one
            break
        node = inner
    return node.start_mark.line + 1
