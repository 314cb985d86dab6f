"""`Reader`: takes a JSON document apart field by field and collects every error on the way."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from ..errors import InputError

__all__ = ["Reader"]

_INTEGER = re.compile(r"[1-9][0-9]{0,8}")


class Reader:
    """Typed access to a document from a stranger.

    Every accessor returns a value of its type, a harmless one after an error, so that reading goes on and
    `raise_errors` tells them all. A message is ``file: path: what (got …); how to mend``.

    Parameters
    ----------
    where : str
        The file, for messages.
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self.errors: list[str] = []

    def error(self, path: str, what: str, got: object, mend: str) -> None:
        """Note one error."""
        shown = repr(got)
        shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
        self.errors.append(f"{self.where}: {_printable(path)}: {what} (got {shown}); {mend}")

    def failure(self) -> InputError:
        """All noted errors as one exception, one error a line."""
        return InputError("\n".join(self.errors))

    def raise_errors(self) -> None:
        """Raise `failure` if anything was noted."""
        if self.errors:
            raise self.failure()

    @contextmanager
    def building(self, path: str) -> Generator[None, None, None]:
        """Note an `InputError` that is raised within this context, as an object is made of what was read, and go on."""
        try:
            yield
        except InputError as error:
            self.errors.append(f"{self.where}: {_printable(path)}: {error}")

    def root(
        self, document: object, form: str, version: int, required: Iterable[str], optional: Iterable[str] = ()
    ) -> Mapping[str, Any]:
        """The top level; with a wrong format or version nothing else would make sense, so it raises at once."""
        given = _object(document)
        if given is None:
            self.error("top level", "expected an object", document, f"write a {form} file")
        elif given.get("format") != form:
            self.error("format", f"expected {form!r}", given.get("format"), "is this the right file?")
        elif given.get("version") != version:
            found = given.get("version")
            mend = "update meshwright" if isinstance(found, int) and found > version else "save it again"
            self.error("version", f"expected schema version {version}", found, mend)
        self.raise_errors()
        return self.fields(document, "top level", {"format", "version", *required}, optional)

    def fields(
        self, value: object, path: str, required: Iterable[str], optional: Iterable[str] = ()
    ) -> Mapping[str, Any]:
        """An object with these fields and no others."""
        given = _object(value)
        if given is None:
            self.error(path, "expected an object", value, f"give {', '.join(sorted(required))}")
            return {}
        allowed = [*required, *optional]
        for key in required:
            if key not in given:
                self.error(path, f"missing field {key!r}", sorted(given), "add it")
        for key in given:
            if key not in allowed:
                near = difflib.get_close_matches(key, allowed, n=1)
                mend = f"did you mean {near[0]!r}?" if near else f"allowed: {', '.join(sorted(allowed))}"
                self.error(path, "unknown field", key, mend)
        return given

    def text(self, parent: Mapping[str, Any], key: str, path: str, default: str | None = None) -> str:
        """A string; non-empty unless there is a default."""
        value = parent.get(key, default)
        if isinstance(value, str) and (value or default is not None):
            return value
        if key in parent:  # `fields` has told of a missing one
            self.error(_join(path, key), "expected a non-empty string", value, "write one")
        return ""

    def number(self, parent: Mapping[str, Any], key: str, path: str, default: float | None = None) -> float:
        """A finite number >= 0."""
        value = parent.get(key, default)
        return 0.0 if value is None and key not in parent else self._checked(value, _join(path, key), False)

    def mapping(
        self, parent: Mapping[str, Any], key: str, path: str, default: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """An object with arbitrary keys."""
        value = parent.get(key, default)
        given = _object(value)
        if given is not None:
            return given
        if key in parent:  # `fields` has told of a missing one
            self.error(_join(path, key), "expected an object", value, "write {…}")
        return {}

    def sequence(
        self, parent: Mapping[str, Any], key: str, path: str, default: list[Any] | None = None
    ) -> Sequence[Any]:
        """A list."""
        value = parent.get(key, default)
        if isinstance(value, list):
            return cast("list[Any]", value)
        if key in parent:  # `fields` has told of a missing one
            self.error(_join(path, key), "expected a list", value, "write […]")
        return []

    def integer_keys(self, value: Mapping[str, Any], path: str) -> list[str]:
        """The keys, each of which must be a positive integer (a batch size or a degree), ascending."""
        good = [key for key in value if _INTEGER.fullmatch(key)]
        for key in value:
            if key not in good:
                self.error(path, "keys must be positive integers", key, 'write them like "1", "2", "4"')
        return sorted(good, key=int)

    def row(
        self, parent: Mapping[str, Any], key: str, path: str, *, length: int, positive: bool = False
    ) -> tuple[float, ...]:
        """`length` finite numbers, > 0 if `positive`, else >= 0."""
        values = self.sequence(parent, key, path)
        where = _join(path, key)
        if key in parent and isinstance(values, list) and len(values) != length and isinstance(parent[key], list):
            self.error(where, f"expected {length} values, one per stage", len(values), "give one per stage")
        return tuple(self._checked(v, f"{where}[{i}]", positive) for i, v in enumerate(values))

    def numbers_by_int(
        self,
        parent: Mapping[str, Any],
        key: str,
        path: str,
        *,
        positive: bool = False,
        default: dict[str, Any] | None = None,
    ) -> dict[int, float]:
        """An object from positive integers to finite numbers, > 0 if `positive`, else >= 0."""
        values = self.mapping(parent, key, path, default)
        where = _join(path, key)
        return {int(k): self._checked(values[k], f"{where}.{k}", positive) for k in self.integer_keys(values, where)}

    def _checked(self, value: Any, path: str, positive: bool) -> float:
        number = isinstance(value, float | int) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
        if number and (value > 0 or (value == 0 and not positive)):
            return float(value)
        rule = "must be positive and finite" if positive else "must be finite and >= 0"
        self.error(path, rule, value, "measure or enter this cell again")
        return 1.0


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _printable(path: str) -> str:
    """The path in one line whatever its keys hold."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in path)


def _object(value: object) -> dict[str, Any] | None:
    """A JSON object, None if it is something else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
