"""`ShardingSpec`: which slice of a tensor each device of a logical mesh holds (Alpa §4.1, Table 1)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import cast

import numpy as np
import numpy.typing as npt

from .....errors import InputError

__all__ = ["ShardingSpec", "SpecSet", "all_specs", "spec_set"]

Axes = tuple[int, ...]
_DIMENSION = re.compile(r"R|S(01|0|1)")


@dataclass(frozen=True, slots=True)
class ShardingSpec:
    """Mesh axes that cut each dimension of a tensor; an axis cuts one dimension at most.

    Parameters
    ----------
    dims : tuple of tuple of int
        Per dimension the axes that cut it, (0, 1) where both do: axis 0 is the major one. Empty: not cut.

    Raises
    ------
    InputError
        If an axis is not 0 or 1, cuts twice, or a dimension is cut by (1, 0).
    """

    dims: tuple[Axes, ...]

    def __post_init__(self) -> None:
        used = [a for axes in self.dims for a in axes]
        if not set(used) <= {0, 1} or len(set(used)) != len(used) or (1, 0) in self.dims:
            raise InputError(f"sharding spec: expected mesh axes 0 and 1, each once, 01 where both (got {self.dims})")

    @classmethod
    def parse(cls, text: str) -> ShardingSpec:
        """Read ``"S0R"``, ``"RS01"``, …; ``""`` is a scalar's.

        Raises
        ------
        InputError
            If the text is none.
        """
        parts = [m.group(0) for m in _DIMENSION.finditer(text)]
        if "".join(parts) != text:
            raise InputError(f"sharding spec: expected R, S0, S1 or S01 for each dimension (got {text!r})")
        return cls(tuple(tuple(int(c) for c in part[1:]) for part in parts))

    def __str__(self) -> str:
        return "".join(f"S{''.join(map(str, axes))}" if axes else "R" for axes in self.dims)

    @property
    def axes(self) -> frozenset[int]:
        """Axes that cut a dimension."""
        return frozenset(a for axes in self.dims for a in axes)

    def dimension(self, axis: int) -> int:
        """Dimension that an axis cuts; −1 for none."""
        return next((d for d, axes in enumerate(self.dims) if axis in axes), -1)

    def pieces(self, mesh: Sequence[int]) -> tuple[int, ...]:
        """Pieces of each dimension on a mesh of this shape."""
        return tuple(math.prod(mesh[a] for a in axes) for axes in self.dims)

    def valid(self, shape: Sequence[int], mesh: Sequence[int]) -> bool:
        """Whether it has the tensor's dimensions, and cuts each evenly."""
        return len(shape) == len(self.dims) and all(n % p == 0 for n, p in zip(shape, self.pieces(mesh), strict=True))

    def local_shape(self, shape: Sequence[int], mesh: Sequence[int]) -> tuple[int, ...]:
        """Shape of what each device holds.

        Raises
        ------
        InputError
            If the spec does not cut the shape evenly.
        """
        if not self.valid(shape, mesh):
            raise InputError(f"sharding spec {self}: does not cut shape {tuple(shape)} evenly on a mesh {tuple(mesh)}")
        return tuple(n // p for n, p in zip(shape, self.pieces(mesh), strict=True))

    def local_bytes(self, shape: Sequence[int], itemsize: int, mesh: Sequence[int]) -> int:
        """Bytes on each device."""
        return math.prod(self.local_shape(shape, mesh)) * itemsize

    def slices(self, shape: Sequence[int], mesh: Sequence[int], device: Sequence[int]) -> tuple[slice, ...]:
        """What the device at these mesh coordinates holds (Table 1)."""
        found: list[slice] = []
        for axes, n in zip(self.dims, self.local_shape(shape, mesh), strict=True):
            at = 0
            for a in axes:
                at = at * mesh[a] + device[a]
            found.append(slice(at * n, (at + 1) * n))
        return tuple(found)


@dataclass(frozen=True)
class SpecSet:
    """All valid specs of tensors of one shape on meshes of one shape, numbered.

    Parameters
    ----------
    shape : tuple of int
        Shape of the tensor.
    mesh : (int, int)
        Shape of the mesh. Axes of one device cut nothing and occur in no spec.
    specs : tuple of ShardingSpec
        The first one is not cut at all.
    """

    shape: tuple[int, ...]
    mesh: tuple[int, int]
    specs: tuple[ShardingSpec, ...]

    @cached_property
    def index(self) -> dict[ShardingSpec, int]:
        """Spec -> its number."""
        return {spec: i for i, spec in enumerate(self.specs)}

    @cached_property
    def share(self) -> npt.NDArray[np.float64]:
        """Part of the tensor that a device holds, per spec."""
        return np.array([1.0 / math.prod(spec.pieces(self.mesh)) for spec in self.specs])


def _of(shape: tuple[int, ...], mesh: tuple[int, int]) -> SpecSet:
    places = [range(-1, len(shape)) if mesh[a] > 1 else (-1,) for a in (0, 1)]
    found: list[ShardingSpec] = []
    for d0 in places[0]:
        for d1 in places[1]:
            dims = tuple((0,) * (d == d0) + (1,) * (d == d1) for d in range(len(shape)))
            spec = ShardingSpec(dims)
            if spec.valid(shape, mesh):
                found.append(spec)
    return SpecSet(shape, mesh, tuple(found))


# Bounded, here and in `algorithms` and `reshard`, for sessions that plan many models; one model has far fewer
# entries.
_cached = lru_cache(maxsize=65536)(_of)


def spec_set(shape: Sequence[int], mesh: Sequence[int]) -> SpecSet:
    """All valid specs of a shape on a mesh, numbered."""
    return _cached(tuple(shape), cast(tuple[int, int], tuple(mesh)))


def all_specs(shape: Sequence[int], mesh: Sequence[int]) -> tuple[ShardingSpec, ...]:
    """All valid specs of a shape on a mesh; see `SpecSet`."""
    return spec_set(shape, mesh).specs
