"""Axes and designs: which values each field takes, and which combinations of them are evaluated."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Axis", "Design", "Values", "design_of"]

Values = tuple[tuple[str, Any], ...]
"""Path and value of each field that varies, in axis order."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One field that varies.

    Parameters
    ----------
    path : str
        Full path of the field.
    values : tuple
        What it takes, in order.
    """

    path: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Design:
    """Every combination of the axes' values, the last axis fastest."""

    axes: tuple[Axis, ...]

    def __len__(self) -> int:
        return math.prod(len(a.values) for a in self.axes)

    def __iter__(self) -> Iterator[Values]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: int) -> Values:
        found: list[tuple[str, Any]] = []
        for axis in reversed(self.axes):
            index, i = divmod(index, len(axis.values))
            found.append((axis.path, axis.values[i]))
        return tuple(reversed(found))

    def document(self) -> Any:
        """Plain data that tells this design from others."""
        return [list(a.values) for a in self.axes]


def design_of(axes: Sequence[Axis], design: Any, points: Any, seed: int) -> Design:
    """The design that a study file asks for."""
    return Design(tuple(axes))
