"""What an operator of kind ``call`` calls: an overload of torch's aten library, its arguments as JSON text.

The text is an object of arguments by the names of the overload's schema; those that are left out have its defaults.
Numbers, truth values, text, null and lists stand for themselves; an object with one entry is a place:

- ``{"operand": k}``: the operator's k-th operand;
- ``{"complex": k}``: the same, its last dimension read as real and imaginary parts (complex results are such pairs);
- ``{"rows": n}``: n times the trip count of the loop that attribute ``rows`` names, on this device;
- ``{"dtype": "int64"}``: a dtype; every floating-point one is the run's;
- ``{"number": "inf"}``: a number that JSON lacks;
- ``{"pair": [re, im]}``: a complex number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, cast

from ...errors import InputError

__all__ = ["check_call", "filled", "read_arguments"]

_TARGET = re.compile(r"aten\.([A-Za-z_][A-Za-z0-9_]*)\.([A-Za-z0-9_]+)$")
_NUMBERS = ("inf", "-inf", "nan")

FORBIDDEN = frozenset(
    {"as_strided", "as_strided_copy", "as_strided_scatter", "empty", "empty_like", "empty_permuted", "empty_quantized",
     "empty_strided", "from_file", "new_empty", "new_empty_strided", "record_stream", "resize", "resize_as", "set",
     "set_data"}
)  # fmt: skip
"""Words that read memory that nobody wrote, files or strides, or change what they are given."""


def check_call(attributes: Mapping[str, Any], operands: int, loops: frozenset[str], dtypes: frozenset[str]) -> None:
    """Refuse attributes of a ``call`` that do not say a functional call of aten. Needs no torch; `compute` asks torch.

    Raises
    ------
    InputError
        If the target is not of the form ``aten.word.overload`` or may not be called, or if the arguments are no object
        or name a place that does not exist.
    """
    target = attributes.get("target")
    match = _TARGET.match(target) if isinstance(target, str) else None
    if match is None:
        raise InputError(f"target: expected aten.word.overload (got {target!r})")
    word, overload = match.groups()
    in_place = word.endswith("_") and not word.endswith("__")
    if in_place or word in FORBIDDEN or overload == "out" or overload.endswith("_out"):
        raise InputError(f"target: {target!r} may not be called: only functions that make new values are")
    result = attributes.get("result", 0)
    if isinstance(result, bool) or not isinstance(result, int) or result < 0:
        raise InputError(f"result: expected the position of a result (got {result!r})")
    rows = attributes.get("rows", "")
    if rows != "" and rows not in loops:
        raise InputError(f"rows: expected a loop of the formula (got {rows!r})")
    if not isinstance(attributes.get("arguments"), str):
        raise InputError("arguments: expected JSON text")
    named = set[int]()
    for place, value in _places(read_arguments(attributes["arguments"])):
        count = isinstance(value, int) and not isinstance(value, bool)
        if place in ("operand", "complex") and count and 0 <= value < operands:
            named.add(value)
        elif not (
            (place == "rows" and count and value > 0 and rows)
            or (place == "dtype" and value in dtypes)
            or (place == "number" and value in _NUMBERS)
            or (place == "pair" and _is_pair(value))
        ):
            what = f"{{{place!r}: {value!r}}}"
            raise InputError(f"arguments: {what}: expected an operand of {operands}, rows, a dtype or a number")
    if len(named) < operands:
        raise InputError(f"arguments: expected every operand of {operands} to be read (read are {sorted(named)})")


@lru_cache(maxsize=4096)
def read_arguments(text: str) -> Mapping[str, Any]:
    """Arguments by name.

    Raises
    ------
    InputError
        If the text is no JSON object.
    """
    try:
        found = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"arguments: not JSON: {error}") from None
    if not isinstance(found, dict):
        raise InputError(f"arguments: expected an object (got {text[:60]!r})")
    return cast("dict[str, Any]", found)


def filled(value: Any, place: Callable[[str, Any], Any]) -> Any:
    """A value of the arguments, places filled by `place(kind, what)`."""
    if isinstance(value, list):
        return [filled(x, place) for x in cast("list[Any]", value)]
    if isinstance(value, dict):
        ((kind, what),) = cast("dict[str, Any]", value).items()
        if kind == "pair":
            return complex(*what)
        return float(what) if kind == "number" else place(kind, what)
    return value


def _is_pair(value: Any) -> bool:
    if not isinstance(value, list):
        return False
    parts = cast("list[Any]", value)
    return len(parts) == 2 and all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in parts)


def _places(arguments: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    stack = list(arguments.values())
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            entries = list(cast("dict[str, Any]", value).items())
            if len(entries) != 1:
                raise InputError(f"arguments: expected places of one entry (got {entries!r:.60})")
            yield entries[0]
        elif isinstance(value, list):
            stack += cast("list[Any]", value)
