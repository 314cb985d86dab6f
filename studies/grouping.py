"""Rows of a frame that belong together: by columns that may hold anything, in order of first appearance."""

from __future__ import annotations

# scipy brings no type stubs.
# pyright: reportMissingTypeStubs=false
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

__all__ = ["Floats", "Groups", "group", "missing", "plain"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Groups:
    """Rows that belong together.

    Parameters
    ----------
    code : ndarray of int, shape (rows,)
        Group of each row, numbered in order of first appearance.
    first : ndarray of int, shape (groups,)
        First row of each group.
    """

    code: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]

    def count(self, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """Rows of each group in a mask, shape (groups,)."""
        return np.bincount(self.code[mask], minlength=len(self.first))

    def intervals(self, values: Floats, confidence: float) -> tuple[Floats, Floats, npt.NDArray[np.int64]]:
        """Mean, half width of the t-interval, and number of the finite values of each group, all at once."""
        from scipy.special import stdtrit

        known = np.isfinite(values)
        code, x, size = self.code[known], values[known], len(self.first)
        n = np.bincount(code, minlength=size)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.bincount(code, weights=x, minlength=size) / n
            square = np.bincount(code, weights=(x - mean[code]) ** 2, minlength=size)
            deviation = np.sqrt(square / np.where(n > 1, n - 1, np.nan))
            quantile = np.asarray(stdtrit(np.maximum(n - 1, 1), 0.5 + confidence / 2), dtype=np.float64)
            return mean, quantile * deviation / np.sqrt(n), n


def group(frame: Any, columns: Sequence[str]) -> Groups:
    """Group rows by columns, whatever is in them, in order of first appearance; missing values are alike."""
    number: dict[tuple[object, ...], int] = {}
    first: list[int] = []
    keys = [[_key(v) for v in frame[c]] for c in columns]
    code = np.empty(len(frame), dtype=np.int64)
    for row, key in enumerate(zip(*keys, strict=True) if keys else ((),) * len(frame)):
        if key not in number:
            number[key] = len(first)
            first.append(row)
        code[row] = number[key]
    return Groups(code, np.array(first, dtype=np.int64))


def _key(value: Any) -> object:
    """A hashable stand-in: equal for equal values, the same for all that are missing."""
    if isinstance(value, str | int | bool):
        return value
    if isinstance(value, list | tuple | dict):
        return json.dumps(value, default=repr)
    return None if missing(value) else value


def missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)


def plain(value: Any) -> Any:
    """A plain Python value where pandas holds numpy's, whole numbers whole: with gaps a column of them holds floats."""
    if isinstance(value, np.generic):
        value = cast("Any", value).item()
    return int(value) if isinstance(value, float) and value.is_integer() else value
