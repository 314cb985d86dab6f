"""`PlanFile`: what plans of every kind have in common as files."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self, cast

from ...errors import InputError
from ...files import readable, write_text
from .entries import Entry, Problem
from .reader import read

__all__ = ["PlanFile", "layout"]


class PlanFile(Entry):
    """Base of a plan: an entry that is a file of its own, and says its kind and version in it.

    The defaults of the fields ``kind`` (of multi-model plans: ``format``) and ``version`` are what a file must say.
    """

    noun: ClassVar[str]
    """With its article, for messages."""

    schema_id: ClassVar[str]

    @property
    def _figures(self) -> dict[str, float]:
        # Every kind has the field; declared here it would come first in every file.
        return cast("dict[str, float]", getattr(self, "predicted", {}))

    def _expected(self, most: int = 2) -> str:
        """The first of the predicted figures, for the line that shows the plan; empty if nothing is predicted."""
        return "".join(f", {name} {value:.4g}" for name, value in list(self._figures.items())[:most])

    def shown_rows(self) -> Iterable[tuple[str, object]]:
        """The fields, and each predicted figure in a row of its own."""
        return [*super().shown_rows(), *((f"predicted {name}", value) for name, value in self._figures.items())]

    @classmethod
    @abstractmethod
    def between(cls, data: Mapping[str, Any]) -> list[Problem]:
        """What is wrong between the entries of a parsed file, as far as they can be read one by one."""

    def to_json(self) -> str:
        """The plan as JSON text, the same bytes for the same plan."""
        return layout(self.model_dump(mode="json"), "") + "\n"

    def save(self, path: str | Path) -> Path:
        """Write the plan as JSON, whole."""
        return write_text(path, self.to_json())

    @classmethod
    def from_json(cls, text: str, where: str = "plan") -> Self:
        """Read a plan from JSON text; `where` names it in errors."""
        key = cls._key()
        kind, version = (cls.model_fields[name].default for name in (key, "version"))
        return read(text, where, cls, kind, version, key=key, between=cls.between)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a plan.

        Raises
        ------
        InputError
            If the file is missing, is no plan, or contradicts itself; all errors at once, a line each.
        """
        try:
            text = readable(path).read_text(encoding="utf-8")
        except OSError as error:
            raise InputError(f"{path}: cannot read the plan: {error.strerror or error}") from None
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: not {cls.noun}: not UTF-8 text (byte {error.start}: {error.reason})") from None
        return cls.from_json(text, str(path))

    @classmethod
    def is_one(cls, path: str | Path) -> bool:
        """Whether a file says that it is such a plan; one that cannot be read does not."""
        try:
            # `layout` writes the kind among the first keys; the rest of a large plan need not be searched.
            return f'"{cls.model_fields[cls._key()].default}"' in readable(path).read_text(encoding="utf-8")[:4096]
        except (OSError, UnicodeDecodeError):
            return False

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """The published JSON Schema (draft 2020-12); docs/schema holds the same."""
        said = cls.model_json_schema()
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": cls.schema_id,
            **said,
            "required": [cls._key(), "version", *said["required"]],
        }

    @classmethod
    def _key(cls) -> str:
        """The field that says which kind of plan it is."""
        return "kind" if "kind" in cls.model_fields else "format"


def layout(value: Any, indent: str) -> str:
    """JSON for people: one line per key, lists of plain values on one line."""
    inner = indent + "  "
    if isinstance(value, dict) and value:
        entries = cast("dict[str, Any]", value)
        rows = [f"{inner}{_plain(key)}: {layout(item, inner)}" for key, item in entries.items()]
        return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
    items = cast("list[Any]", value) if isinstance(value, list) else []
    if any(isinstance(item, dict | list) for item in items):
        return "[\n" + ",\n".join(inner + layout(item, inner) for item in items) + f"\n{indent}]"
    return _plain(value)


def _plain(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
