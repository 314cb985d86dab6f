"""`Kind`: what a cell of a trace file may hold. Each kind has a fast rule for whole columns and one for a single
cell."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["COUNT", "ID", "SLO", "TEXT", "TIME", "TOKENS", "Kind", "one_of"]


@dataclass(frozen=True)
class Kind:
    """A kind of cell.

    Parameters
    ----------
    dtype : str
        The type that pandas is asked to read.
    holds : callable
        Whether every cell of a column is right.
    wrong : callable
        What is wrong with the text of one cell; None if nothing is. Agrees with `holds`.
    """

    dtype: str
    holds: Callable[[npt.NDArray[Any]], bool]
    wrong: Callable[[str], str | None]


def _number(text: str) -> float | str:
    cell = text.strip()
    if not cell:
        return "is empty"
    try:
        return float(cell)
    except ValueError:
        return "is not a number"


def _wrong_time(text: str) -> str | None:
    value = _number(text)
    if isinstance(value, str):
        return value
    if not math.isfinite(value):
        return "must be finite"
    return "must be >= 0" if value < 0 else None


def _wrong_slo(text: str) -> str | None:
    value = _number(text)
    if isinstance(value, str):
        return value
    return None if value > 0 else "must be > 0"


def _wrong_integer(low: int, high: int) -> Callable[[str], str | None]:
    def wrong(text: str) -> str | None:
        value = _number(text)
        if isinstance(value, str):
            return value
        if not math.isfinite(value) or value != math.floor(value):
            return "must be an integer"
        return (
            None
            if low <= value <= high
            else f"must be an integer >= {low}" + (f" and <= {high}" if value > high else "")
        )

    return wrong


def _between(low: int, high: int) -> Callable[[npt.NDArray[Any]], bool]:
    return lambda column: len(column) == 0 or (bool(column.min() >= low) and bool(column.max() <= high))


def one_of(known: frozenset[str]) -> Kind:
    """Text that must be one of `known`."""
    return Kind("str", lambda _: True, lambda text: None if text in known else "is no known model")


_INT32, _INT64 = 2**31 - 1, 2**63 - 1

TIME = Kind("float64", lambda c: bool(((c >= 0) & (c < np.inf)).all()), _wrong_time)
SLO = Kind("float64", lambda c: bool((c > 0).all()), _wrong_slo)
COUNT = Kind("int64", _between(0, _INT32), _wrong_integer(0, _INT32))
TOKENS = Kind("int64", _between(1, _INT32), _wrong_integer(1, _INT32))
ID = Kind("int64", _between(-_INT64, _INT64), _wrong_integer(-_INT64, _INT64))
TEXT = Kind("str", lambda c: not bool((c == "").any()), lambda text: None if text else "is empty")
