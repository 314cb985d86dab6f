"""The pieces that an iteration's cost is made of: named parts, surfaces over two coordinates, and what gives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ....reprs import Shown
from ..tables.grid import KINDS, Grid

__all__ = ["Kernels", "Part", "Parts", "Surface"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, repr=False)
class Part(Shown):
    """One part of an iteration.

    Parameters
    ----------
    name : str
        Name of the part.
    seconds : float
        Seconds of all layers together.
    basis : str
        ``measured``, ``interpolated``, ``extrapolated by roofline``, or ``overhead``.
    """

    name: str
    seconds: float
    basis: str


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """The same part at several sizes."""

    name: str
    seconds: Floats
    kind: Any

    def part(self, index: int = 0) -> Part:
        """The part at one of the sizes."""
        return Part(self.name, float(self.seconds[index]), KINDS[int(self.kind[index])])


@dataclass(frozen=True, slots=True, eq=False)
class Surface:
    """Seconds over two coordinates, of all layers together; between its points affine in both.

    Parameters
    ----------
    x, y : array
        Sorted coordinates; `y` of prefill is an area (pairs of tokens).
    seconds : array
        One value per (x, y).
    kind : array
        What each value rests on, as an index into `KINDS`.
    """

    x: Floats
    y: Floats
    seconds: Floats
    kind: Any

    def basis(self, x: float, y: float) -> int:
        """Whether the value at (x, y) is measured, interpolated or extrapolated."""
        inside = self.x[0] <= x <= self.x[-1] and self.y[0] <= y <= self.y[-1]
        columns = _around(self.x, x)
        worst = max(int(self.kind[i, j]) for i in columns for j in _around(self.y, y))
        exact = x in self.x and y in self.y
        return max(worst, 0 if exact else 1 if inside else 2)


def _around(axis: Floats, value: float) -> tuple[int, ...]:
    high = int(np.clip(np.searchsorted(axis, value), 0, len(axis) - 1))
    if axis[high] == value or high == 0 or value > axis[-1]:
        return (high,)
    return (high - 1, high)


class Kernels(Protocol):
    """Whoever can say how long the kernels of one model at one setting take."""

    def dense(self, tokens: Floats) -> list[Parts]:
        """Parts that depend on the number of tokens alone."""
        ...

    def experts(self, tokens: Floats) -> list[Parts]:
        """Parts that depend on the tokens of all ranks that meet at the experts; none in a dense model."""
        ...

    def head(self, outputs: Floats) -> list[Parts]:
        """Parts that depend on the number of sequences that give a token."""
        ...

    def decode(self) -> Surface:
        """Attention of decodes over (sequences, mean context)."""
        ...

    def prefill(self) -> Surface:
        """Attention of equal prompts without context over (prompts, area of one)."""
        ...

    def mixed(self) -> Grid | None:
        """Attention of one chunk beside decodes over (new, before, decodes, mean context), where that was measured."""
        ...

    def grids(self) -> dict[str, Grid]:
        """The measured grids that are read, by name; none by the roofline."""
        ...

    def fallbacks(self) -> list[str]:
        """What was not measured as it runs, and what stands for it: one line each."""
        ...

    @property
    def launches(self) -> int:
        """Kernels of one iteration."""
        ...
