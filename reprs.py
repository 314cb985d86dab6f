"""`Shown`: gives objects a repr of one line, and a small table in notebooks.

Plans, profile sets, graphs and results are large. Python's own repr of them would fill many screens (839 kB for a
profile set), and a notebook would send all of it to the browser. Only the standard library is imported here: showing an
object must not load pandas or matplotlib.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from typing import Any, cast

__all__ = ["WIDTH", "Shown", "html_table", "one_line", "value_text"]

WIDTH = 160
"""Most characters of a repr: two lines of a terminal, one line of a log."""
VALUE_WIDTH = 40
"""Most characters of one value in a repr, so that four fit."""
CELL_WIDTH = 120
"""Most characters of a value in a notebook's table: about what such a cell shows in one line."""


class Shown:
    """Base class that gives a repr of one line and an HTML table. Subclasses override `_headline` and `shown_rows`.

    Dataclasses must say ``repr=False``, because the decorator would otherwise write a repr of its own.
    """

    __slots__ = ()

    def _headline(self) -> str:
        """The text between the parentheses of the repr: sizes, and the figures one looks at first, with units.

        By default it lists the fields. If the line would be too long, fields that have their default are left out.
        """
        said = _named_values(self)
        text = ", ".join(f"{name}={value_text(value)}" for name, value, _ in said)
        if len(text) + len(type(self).__name__) + 2 <= WIDTH:
            return text
        return ", ".join(f"{name}={value_text(value)}" for name, value, usual in said if not usual)

    def shown_rows(self) -> Iterable[tuple[str, object]]:
        """Rows (name, value) of the notebook's table. By default these are the fields."""
        return [(name, value) for name, value, _ in _named_values(self)]

    def __repr__(self) -> str:
        return one_line(type(self).__name__, self._headline())

    def _repr_html_(self) -> str:
        return html_table(repr(self), self.shown_rows())


def one_line(kind: str, headline: str) -> str:
    """``Kind(headline)`` on one line of at most `WIDTH` characters; a longer headline is cut and ends in ``…``."""
    text = " ".join(headline.split())
    room = WIDTH - len(kind) - 2
    return f"{kind}({text if len(text) <= room else text[: room - 1].rstrip(', ') + '…'})"


def html_table(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """An HTML table of two columns with a caption. All texts are escaped."""
    body = "".join(
        f"<tr><th style='text-align:left'>{html.escape(str(name))}</th>"
        f"<td style='text-align:left'>{html.escape(value_text(value, CELL_WIDTH))}</td></tr>"
        for name, value in rows
    )
    return f"<table><caption style='text-align:left'>{html.escape(title)}</caption><tbody>{body}</tbody></table>"


def value_text(value: object, width: int = VALUE_WIDTH) -> str:
    """A value in at most `width` characters: plain values as they are, large ones only by their sizes."""
    text = _plain_text(value, width)
    return text if len(text) <= width else text[: width - 1] + "…"


def _plain_text(value: object, width: int) -> str:
    if isinstance(value, str):
        # A cell of a table shows the text itself, a repr shows that it is text.
        flat = " ".join(value.split())
        return flat if width > VALUE_WIDTH else repr(flat)
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, bool | int | None) or (isinstance(value, bytes) and len(value) <= 16):
        return repr(value)
    if isinstance(value, float):
        return f"{value:.6g}" if math.isfinite(value) else str(value)
    if hasattr(value, "dtype") and hasattr(value, "shape"):  # numpy, torch or pandas, none of which is imported here
        array: Any = value
        return f"{array.dtype}[{' x '.join(map(str, array.shape))}]" if array.shape else f"{array}"
    if isinstance(value, type) or (callable(value) and hasattr(value, "__name__")):
        return str(cast(Any, value).__name__)
    if isinstance(value, Shown):
        text = repr(value)
        return text if len(text) <= width else f"{type(value).__name__}(…)"
    if isinstance(value, Mapping):
        return _collection(cast("Mapping[Any, Any]", value), width, "{}")
    if isinstance(value, Sequence | set | frozenset):
        return _collection(cast("Sequence[Any]", value), width, "[]" if isinstance(value, list) else "()")
    return _foreign(value, width)


def _collection(value: Mapping[Any, Any] | Sequence[Any], width: int, brackets: str) -> str:
    """The items of a collection if they are few and short, else how many there are."""
    if len(value) <= 8:
        inner = (
            [f"{_plain_text(k, VALUE_WIDTH)}: {_plain_text(v, VALUE_WIDTH)}" for k, v in value.items()]
            if isinstance(value, Mapping)
            else [_plain_text(v, VALUE_WIDTH) for v in value]
        )
        text = brackets[0] + ", ".join(inner) + ("," if brackets == "()" and len(inner) == 1 else "") + brackets[1]
        if len(text) <= width:
            return text
    return f"<{len(value)} {'entries' if isinstance(value, Mapping) else 'items'}>"


def _foreign(value: object, width: int) -> str:
    """An object of another library, or a small one of ours: its repr if that is short, else its type."""
    if (
        is_dataclass(value)
        and not isinstance(value, type)
        and any(_large(getattr(value, f.name)) for f in fields(value))
    ):
        return f"{type(value).__name__}(…)"  # its repr may be very long: it is not even written
    text = " ".join(repr(value).split())
    return text if len(text) <= width and " at 0x" not in text else f"{type(value).__name__}(…)"


def _large(value: object) -> bool:
    return hasattr(value, "shape") or (isinstance(value, Sequence | Mapping) and len(cast("Sequence[Any]", value)) > 8)


def _named_values(shown: object) -> list[tuple[str, object, bool]]:
    """Fields of a dataclass or a pydantic model, in their order: name, value, and whether it is the default."""
    if is_dataclass(shown):
        found: list[tuple[str, object, bool]] = []
        for field in fields(shown):
            if field.repr and not field.name.startswith("_"):
                value = getattr(shown, field.name)
                found.append((field.name, value, field.default is not MISSING and _same(value, field.default)))
        return found
    model = getattr(type(shown), "model_fields", None)
    if model is not None:
        return [
            (name, getattr(shown, name), not about.is_required() and _same(getattr(shown, name), about.get_default()))
            for name, about in model.items()
            if about.repr
        ]
    return []


def _same(value: object, usual: object) -> bool:
    """Whether a value equals its default. Arrays and other large values are compared only by identity."""
    if isinstance(value, str | int | float | None):
        return type(value) is type(usual) and value == usual
    return value is usual
