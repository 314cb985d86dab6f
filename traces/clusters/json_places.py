"""Find the line and column of values in a JSON text, because `json.loads` does not keep them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set

__all__ = ["line_and_column", "places"]

Step = str | int
TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|([\[\]{},:])|([^\s\[\]{},:"]+))', re.DOTALL)


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Line and column of an offset, both from 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def places(text: str, wanted: Set[tuple[Step, ...]]) -> dict[tuple[Step, ...], tuple[int, int]]:
    """Line and column of the values at some paths of a valid JSON text.

    A path is keys and positions from the outside in: ``(3, "attempts", 0, "end_time")``.
    """
    found: dict[tuple[Step, ...], tuple[int, int]] = {}
    for path, offset in _values(text):
        if path in wanted:
            found[path] = line_and_column(text, offset)
            if len(found) == len(wanted):
                break
    return found


def _values(text: str) -> Iterator[tuple[tuple[Step, ...], int]]:
    """Path and offset of every value, in order. Where an object has a key twice, the last counts, as in json.loads."""
    path: list[Step] = []
    array: list[bool] = []  # of each open bracket whether it is [
    key_next = False
    for token in TOKEN.finditer(text):
        string, mark, _ = token.groups()
        at = token.start(token.lastindex or 0)
        if mark in (",", ":"):
            if mark == "," and array[-1]:
                path[-1] = int(path[-1]) + 1
            key_next = mark == "," and not array[-1]
        elif mark in ("]", "}"):
            array.pop()
            path.pop()
            key_next = False
        elif key_next and string is not None:
            path[-1] = _unescaped(string)
            key_next = False
        else:
            yield tuple(path), at
            if mark is not None:
                array.append(mark == "[")
                path.append(0 if mark == "[" else "")
                key_next = mark == "{"


def _unescaped(string: str) -> str:
    import json

    return str(json.loads(string))
