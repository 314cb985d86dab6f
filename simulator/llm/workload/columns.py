"""Columns of an `LLMTrace`: what each may hold, and how it is read and checked."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ....errors import InputError

__all__ = ["OPTIONAL", "check_classes", "column_of", "counts", "numbered", "place_of", "refuse"]

IntColumn = npt.NDArray[np.int64]
FloatColumn = npt.NDArray[np.float64]


def column_of(values: Any, name: str, kind: type, n: int | None = None) -> npt.NDArray[Any]:
    """A column of its own of one kind; whole numbers only where integers are asked for."""
    try:
        column = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"LLMTrace.{name}: expected numbers (got {str(values)[:60]})") from None
    if column.ndim != 1 or (n is not None and len(column) != n):
        raise InputError(f"LLMTrace.{name}: expected {n if n is not None else 'n'} entries (got shape {column.shape})")
    if kind is int:
        refuse(name, column, ~(np.isfinite(column) & (column == np.floor(column))), "expected whole numbers")
        return column.astype(np.int64)
    return column


def check_classes(kind: IntColumn | None, classes: Sequence[str]) -> None:
    """See that every request is of one of the classes, and that their names differ."""
    if len(set(classes)) < len(classes) or not all(classes):
        raise InputError(f"LLMTrace.classes: expected distinct names (got {', '.join(map(repr, classes))})")
    if kind is not None:
        refuse("kind", kind, kind >= len(classes), f"expected an index into {len(classes)} classes")
    elif classes:
        raise InputError("LLMTrace.classes: need a column kind that says which request is of which")


def counts(values: Any, name: str, n: int, least: int | None = None) -> IntColumn | None:
    """A column of whole numbers, `least` or more; None stays None."""
    if values is None:
        return None
    column = column_of(values, name, int, n)
    if least is not None:
        refuse(name, column, column < least, f"expected integers >= {least}")
    return column


def place_of(column: IntColumn | None, row: int) -> int | None:
    """A row's number in a column in which -1 stands for none."""
    return None if column is None or column[row] < 0 else int(column[row])


def numbered(names: Sequence[Hashable]) -> list[int] | None:
    """Numbers for names, in order of their first use, -1 for None; None where there is no name."""
    known: dict[Hashable, int] = {None: -1}
    numbers = [known.setdefault(name, len(known) - 1) for name in names]
    return numbers if len(known) > 1 else None


def seconds(values: Any, name: str, n: int) -> FloatColumn | None:
    """A column of seconds; None stays None."""
    return None if values is None else column_of(values, name, float, n)


def flags(values: Any, name: str, n: int) -> npt.NDArray[np.bool_] | None:
    """A column of true and false; 0 and 1 are taken for them, as tables hold them."""
    if values is None:
        return None
    column = column_of(values, name, float, n)
    refuse(name, column, (column != 0) & (column != 1), "expected true or false")
    return column.astype(np.bool_)


def refuse(name: str, column: npt.NDArray[Any], bad: npt.NDArray[np.bool_], why: str) -> None:
    """Raise an `InputError` about the first bad row, if there is one."""
    if bad.any():
        row = int(np.argmax(bad))
        more = f" and {int(bad.sum()) - 1} more" if bad.sum() > 1 else ""
        raise InputError(f"LLMTrace.{name}: {why} (row {row}{more}, got {column[row]:g})")


OPTIONAL: Mapping[str, Callable[[Any, str, int], npt.NDArray[Any] | None]] = {
    "best_of": partial(counts, least=1),
    "beam": flags,
    "priority": counts,
    "after": partial(counts, least=-1),
    "think_s": seconds,
    "shared_prefix": partial(counts, least=-1),
    "lora": partial(counts, least=-1),
    "cache_salt": partial(counts, least=-1),
    "kind": partial(counts, least=0),
}
"""Columns that a trace may have, and how each is read and checked."""
