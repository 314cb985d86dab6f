"""Designs: which combinations of the axes' values are evaluated. Indexed lazily: a million points take no memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ... import seeds
from .axes import Axis, Values
from .ranges import Range

__all__ = ["Design", "Grid", "LatinHypercube", "Listed", "Zipped"]


class Design(Protocol):
    """A sequence of combinations."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Values: ...

    def __iter__(self) -> Iterator[Values]: ...

    def document(self) -> Any:
        """The value of a study file's `design` key, or None where `points` says it."""
        ...


@dataclass(frozen=True, slots=True)
class Grid:
    """Every combination of the axes' values, the last axis fastest."""

    axes: tuple[Axis, ...]

    def __len__(self) -> int:
        return math.prod(len(a.values) for a in self.axes)

    def __iter__(self) -> Iterator[Values]:
        """Ten times faster than by index; holds each axis once, whatever the size of the grid."""
        return product(*([(axis.path, value) for value in axis.values] for axis in self.axes))

    def __getitem__(self, index: int) -> Values:
        index = range(len(self))[index]
        found: list[tuple[str, Any]] = []
        for axis in reversed(self.axes):
            index, i = divmod(index, len(axis.values))
            found.append((axis.path, axis.values[i]))
        return tuple(reversed(found))

    def document(self) -> Any:
        """``grid``."""
        return "grid"


@dataclass(frozen=True, slots=True)
class Zipped:
    """The first values of all axes together, then the second ones, and so on; the axes are equally long."""

    axes: tuple[Axis, ...]

    def __len__(self) -> int:
        return len(self.axes[0].values)

    def __iter__(self) -> Iterator[Values]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: int) -> Values:
        index = range(len(self))[index]
        return tuple((axis.path, axis.values[index]) for axis in self.axes)

    def document(self) -> Any:
        """``list``."""
        return "list"


@dataclass(frozen=True, slots=True)
class Listed:
    """The combinations themselves; what one of them leaves out is as in the base case."""

    rows: tuple[Values, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Values]:
        return iter(self.rows)

    def __getitem__(self, index: int) -> Values:
        return self.rows[index]

    def document(self) -> Any:
        """None."""
        return None


@dataclass(frozen=True, slots=True)
class LatinHypercube:
    """`count` random combinations, such that each axis is covered evenly.

    Every axis is cut into `count` strata of equal length, and each stratum holds exactly one combination. A range is
    sampled continuously; of a list each value has an equal share of the strata.

    Source: McKay, Beckman and Conover, Technometrics 21(2), 1979.
    """

    axes: tuple[Axis, ...]
    count: int
    seed: int

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Values]:
        return (self[i] for i in range(self.count))

    def __getitem__(self, index: int) -> Values:
        index = range(self.count)[index]
        parts = _parts(len(self.axes), self.count, self.seed)[:, index].tolist()
        return tuple((axis.path, _value(axis, part)) for axis, part in zip(self.axes, parts, strict=True))

    def document(self) -> Any:
        """``{latin_hypercube: count}``."""
        return {"latin_hypercube": self.count}


def _value(axis: Axis, part: float) -> Any:
    if isinstance(axis.values, Range):
        return axis.values.at(part)
    return axis.values[int(part * len(axis.values))]


@lru_cache(maxsize=2)
def _parts(n_axes: int, count: int, seed: int) -> NDArray[np.float64]:
    """How far along each axis each combination lies, ``[n_axes, count]``, in [0, 1).

    Axes are drawn one after another, so that one more at the end does not move those before it.
    """
    rng = seeds.generator(seed, "latin hypercube")
    parts = np.empty((n_axes, count))
    for row in parts:
        row[:] = (rng.permutation(count) + rng.random(count)) / count
    return np.minimum(parts, np.nextafter(1.0, 0.0))
