"""`ShardingSpec`: which axes of a logical mesh cut which dimensions of a tensor (Alpa §4.1, Table 1)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

from ..errors import InputError

__all__ = ["ShardingSpec"]

_AXES: dict[str, tuple[int, ...]] = {"R": (), "S0": (0,), "S1": (1,), "S01": (0, 1)}
_TEXT = {axes: text for text, axes in _AXES.items()}
_DIMENSION = re.compile("S01|S0|S1|R")


@dataclass(frozen=True, slots=True)
class ShardingSpec:
    """How a tensor lies on a logical mesh (n0, n1), whose devices are numbered row by row.

    Parameters
    ----------
    dimensions : tuple of tuple of int
        For each dimension of the tensor, the mesh axes that cut it: ``()``, ``(0,)``, ``(1,)`` or ``(0, 1)`` (axis 0
        major). A scalar has none. An axis that cuts nothing repeats the tensor.

    Raises
    ------
    InputError
        If an axis is unknown or cuts two dimensions.
    """

    dimensions: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if any(axes not in _TEXT for axes in self.dimensions):
            raise InputError(f"sharding spec: expected (), (0,), (1,) or (0, 1) per dimension (got {self.dimensions})")
        used = [axis for axes in self.dimensions for axis in axes]
        if len(used) != len(set(used)):
            raise InputError(f"sharding spec {self}: a mesh axis can cut one dimension only")

    @classmethod
    def parse(cls, text: str) -> ShardingSpec:
        """Read a spec such as ``S0RS1``; the empty text is that of a scalar.

        Raises
        ------
        InputError
            If the text is no spec.
        """
        parts = _DIMENSION.findall(text)
        if "".join(parts) != text:
            raise InputError(f"sharding spec: expected R, S0, S1 or S01 for each dimension, such as S0R (got {text!r})")
        return cls(tuple(_AXES[part] for part in parts))

    @classmethod
    def replicated(cls, rank: int) -> ShardingSpec:
        """A tensor of `rank` dimensions, whole on every device."""
        return cls(((),) * rank)

    def __str__(self) -> str:
        return "".join(_TEXT[axes] for axes in self.dimensions)

    @property
    def rank(self) -> int:
        """Dimensions of the tensor."""
        return len(self.dimensions)

    @property
    def cutting_axes(self) -> tuple[int, ...]:
        """Mesh axes that cut some dimension, ascending."""
        return tuple(sorted(axis for axes in self.dimensions for axis in axes))

    @property
    def repeating_axes(self) -> tuple[int, ...]:
        """Mesh axes along which devices hold the same."""
        return tuple(axis for axis in (0, 1) if axis not in self.cutting_axes)

    def pieces(self, mesh: tuple[int, int]) -> tuple[int, ...]:
        """Into how many pieces each dimension is cut on a mesh of this shape."""
        return tuple(prod(mesh[axis] for axis in axes) for axes in self.dimensions)

    def fraction(self, mesh: tuple[int, int]) -> float:
        """The share of the tensor that one device holds."""
        return 1.0 / prod(self.pieces(mesh))

    def position(self, mesh: tuple[int, int], device: int) -> tuple[int, ...]:
        """Which piece of each dimension the `device`-th device of the mesh holds."""
        at = divmod(device, mesh[1])
        indices: list[int] = []
        for axes in self.dimensions:
            index = 0
            for axis in axes:
                index = index * mesh[axis] + at[axis]
            indices.append(index)
        return tuple(indices)

    def slices(self, shape: tuple[int, ...], mesh: tuple[int, int], device: int) -> tuple[slice, ...]:
        """The part of a tensor of `shape` that the `device`-th device of the mesh holds (Table 1).

        Raises
        ------
        InputError
            If the tensor has another rank, or a dimension is not divisible.
        """
        self.check(shape, mesh)
        steps = [size // n for size, n in zip(shape, self.pieces(mesh), strict=True)]
        at = self.position(mesh, device)
        return tuple(slice(i * step, (i + 1) * step) for i, step in zip(at, steps, strict=True))

    def check(self, shape: tuple[int, ...], mesh: tuple[int, int]) -> None:
        """Whether a tensor of `shape` can lie so on a mesh.

        Raises
        ------
        InputError
            If the tensor has another rank, or a dimension is not divisible.
        """
        if len(shape) != self.rank:
            raise InputError(
                f"sharding spec {str(self) or 'of a scalar'}: is of {self.rank} dimensions (got shape {shape})"
            )
        for d, (size, n) in enumerate(zip(shape, self.pieces(mesh), strict=True)):
            if size % n:
                raise InputError(f"sharding spec {self}: dimension {d} of size {size} cannot be cut into {n}")
