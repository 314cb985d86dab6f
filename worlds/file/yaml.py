"""YAML files that people write: read with the line of everything, and without YAML's traps.

What is read is the part of YAML that all its versions agree on. Where YAML 1.1 and 1.2 read the same text as different
things (``no``, ``1e5``, ``010``, ``12:30``, ``1_000``, a date), the file says which one was meant, or is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import yaml

from ...errors import InputError
from ...files import readable
from .document import YamlDocument, listed
from .errors import Location
from .values import Trap, scalar

__all__ = ["parse", "read"]

DEPTH = 40
"""Deepest nesting that is read; a person's file has a tenth of it."""
LARGEST = 32 * 2**20
"""Bytes of a file that a person writes, at most."""
GROWTH = 10
"""A file whose anchors make it more than this many times longer than it is written is a bomb."""


def read(path: str | Path) -> str:
    """The text of a file that a person wrote.

    Raises
    ------
    InputError
        If it cannot be read, is too large for that, or is not UTF-8.
    """
    file = readable(path)
    try:
        with file.open("rb") as handle:
            raw = handle.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read: {why}; give the name of a YAML file") from None
    if len(raw) > LARGEST:
        raise InputError(f"{path}: larger than {LARGEST >> 20} MiB; no such file is")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}:{line}: not UTF-8 (byte {raw[error.start]:#04x}); save it as UTF-8") from None


def parse(text: str, where: str) -> YamlDocument:
    """Read the text of a YAML file.

    Parameters
    ----------
    text : str
        One YAML document with a mapping at its top.
    where : str
        Name of the file, for errors.

    Raises
    ------
    InputError
        On a syntax error; or, all at once, on duplicate keys and on text that YAML reads as something else than it
        looks like. Each with its line.
    """
    root = _compose(text.removeprefix("\ufeff"), where)
    if root is None:
        raise InputError(f"{where}: the file is empty; write at least one `key: value`")
    if root.id != "mapping":
        what = "a list" if root.id == "sequence" else "a single value"
        raise InputError(
            f"{where}:{root.start_mark.line + 1}: expected `key: value` lines at the top (got {what}); "
            "a space follows every colon"
        )
    reader = _Reader()
    reader.measure(root, where)
    data = cast("dict[str, Any]", reader.build(root, ()))
    if reader.found:
        raise listed(where, reader.found)
    return YamlDocument(data, where, root)


class _Loader(yaml.SafeLoader):
    """PyYAML's composer, which stops before nesting exhausts Python's stack, and takes no tags."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        reader: Any = self
        event = reader.peek_event()
        if getattr(event, "tag", None) is not None:
            raise yaml.MarkedYAMLError(
                problem=f"tags are not read (got {event.tag})", problem_mark=event.start_mark, note="leave it out"
            )
        self.depth += 1
        if self.depth > DEPTH:
            raise yaml.MarkedYAMLError(
                problem=f"nested more than {DEPTH} deep", problem_mark=event.start_mark, note="flatten it"
            )
        node: Any = super().compose_node(parent, index)
        self.depth -= 1
        return node


SYNTAX = (
    ("'\\t' that cannot start", "a tab; indent and separate with spaces"),
    ("mapping values are not allowed", "a second colon in one line, or wrong indentation; quote text that has a colon"),
    ("expected a single document", "a second document (---) in the file; keep one to a file"),
    ("could not find expected ':'", "a line without its colon; write `key: value`"),
    ("found undefined alias", "an alias (*) of an anchor (&) that is not there; quote text that starts with *"),
    ("unacceptable character", "a character that no text holds; save the file as UTF-8 text"),
    ("special characters are not allowed", "a character that no text holds; save the file as UTF-8 text"),
    ("while scanning an alias", "text that starts with *; quote it"),
    ("while scanning an anchor", "text that starts with &; quote it"),
    ("'@' that cannot start", "text that starts with @; quote it"),
    ("'`' that cannot start", "text that starts with `; quote it"),
    ("'%' that cannot start", "text that starts with %; quote it"),
    ("while scanning a directive", "a line that starts with %; quote text that does"),
    ("found unexpected end of stream", "a quote or bracket that is never closed; close it"),
    ("expected ',' or ']'", "a list that is never closed, or a comma missing in it; close it with ]"),
    ("expected ',' or '}'", "a mapping that is never closed, or a comma missing in it; close it with }"),
    (
        "expected <block end>",
        "indentation that fits no line above, or a bracket too many; align the keys of one mapping",
    ),
)
"""What PyYAML says, and what that means to who wrote the file."""


def _compose(text: str, where: str) -> Any:
    """The node graph of the one document in `text`."""
    reader: Any = yaml
    try:
        return reader.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        said = " ".join(x for x in (error.context, error.problem) if x)
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        told = f"{error.problem}; {error.note}" if error.note else said
    except yaml.reader.ReaderError as error:
        said, line = str(error), f":{text.count(chr(10), 0, cast(int, error.position)) + 1}"
        told = said
    told = next((ours for theirs, ours in SYNTAX if theirs in said), told)
    raise InputError(f"{where}{line}: not YAML as this reads it: {told}") from None


class _Reader:
    """From nodes to data; keeps what is wrong on the way."""

    def __init__(self) -> None:
        self.found: list[tuple[int | None, Location, str]] = []

    def measure(self, root: Any, where: str) -> None:
        """Refuse a document that its anchors multiply, or that holds itself."""
        sizes: dict[int, int] = {}
        under_way: set[int] = set()

        def size(node: Any) -> int:
            if id(node) in under_way:
                line = node.start_mark.line + 1
                raise InputError(f"{where}:{line}: an anchor (&) that holds itself; write the value out")
            if id(node) not in sizes:
                under_way.add(id(node))
                parts: Iterable[Any] = ()
                if node.id == "sequence":
                    parts = node.value
                elif node.id == "mapping":
                    parts = (part for pair in node.value for part in pair)
                sizes[id(node)] = 1 + sum(size(part) for part in parts)
                under_way.discard(id(node))
            return sizes[id(node)]

        if size(root) > GROWTH * len(sizes) + 1000:
            raise InputError(f"{where}: anchors (&) make it {size(root)} values long; write them out, or fewer")

    def build(self, node: Any, loc: Location) -> Any:
        """The value of a node."""
        if node.id == "sequence":
            return [self.build(part, (*loc, i)) for i, part in enumerate(node.value)]
        if node.id == "scalar":
            return self._scalar(node, loc)
        built: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node, loc)
            if key is None:
                continue
            line = key_node.start_mark.line + 1
            if key in built:
                what = f"this key stands twice (first on line {lines[key]}); keep one"
                self.found.append((line, (*loc, key), what))
                continue
            lines[key] = line
            built[key] = self.build(value_node, (*loc, key))
        return built

    def _key(self, node: Any, loc: Location) -> str | None:
        line = node.start_mark.line + 1
        if node.id != "scalar":
            self.found.append((line, loc, "a key must be text (got a list or mapping); write `key: value`"))
            return None
        if node.style is None and node.value in ("<<", "="):
            self.found.append((line, loc, f"merge keys are not read (got {node.value}); write the keys out"))
            return None
        try:
            key = scalar(node.value, node.style is None)
        except Trap as trap:
            self.found.append((line, loc, f"a key: {trap}"))
            return None
        if not isinstance(key, str):
            self.found.append((line, loc, f'a key must be text (got {node.value or "nothing"}); write "{node.value}"'))
            return None
        return key

    def _scalar(self, node: Any, loc: Location) -> Any:
        try:
            return scalar(node.value, node.style is None)
        except Trap as trap:
            self.found.append((node.start_mark.line + 1, loc, str(trap)))
            return None
