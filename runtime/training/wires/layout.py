"""`Layout`: how a tensor is sharded on a logical mesh."""

from __future__ import annotations

import math
import re

from ....errors import InputError
from ....profiles.graph.notation import Dims

__all__ = ["Layout", "local_shape", "natural", "parse_layout", "pieces", "pieces_of", "whole"]

Layout = tuple[tuple[int, ...], ...]
"""For each dimension, the mesh axes that cut it, the major one first: ``S0RS1`` is ((0,), (), (1,))."""

_DIM = re.compile(r"R|S01|S0|S1")
_CUTS = {"R": (), "S0": (0,), "S1": (1,), "S01": (0, 1)}


def parse_layout(text: str, dims: int, shape: tuple[int, int], where: str) -> Layout:
    """Read a sharding spec such as ``S0RS1``; axes of one device are left out, since they cut nothing.

    Raises
    ------
    InputError
        If the text is no spec, has another number of dimensions, or uses an axis twice.
    """
    parts = _DIM.findall(text)
    axes = [axis for part in parts for axis in _CUTS[part]]
    if "".join(parts) != text or len(parts) != dims or len(set(axes)) < len(axes):
        raise InputError(f"{where}: expected a sharding spec of {dims} dimensions, such as {'R' * dims} (got {text!r})")
    return tuple(tuple(axis for axis in _CUTS[part] if shape[axis] > 1) for part in parts)


def whole(dims: int) -> Layout:
    """The layout of a replicated tensor: no dimension is cut."""
    return ((),) * dims


def natural(dims: Dims, axes: tuple[str, str], shape: tuple[int, int]) -> Layout:
    """The layout of a tensor whose dimensions are these loops, when each mesh axis cuts the loop that `axes` names.

    Both axes may cut the same loop.
    """
    return tuple(
        tuple(axis for axis in (0, 1) if shape[axis] > 1 and group and axes[axis] == group[0]) for group in dims
    )


def pieces(cut: tuple[int, ...], shape: tuple[int, int]) -> int:
    """Number of pieces into which a dimension is cut by these axes."""
    return math.prod(shape[axis] for axis in cut)


def pieces_of(layout: Layout, shape: tuple[int, int]) -> int:
    """Number of different shards of a tensor."""
    return math.prod(pieces(cut, shape) for cut in layout)


def local_shape(full: tuple[int, ...], layout: Layout, shape: tuple[int, int], where: str) -> tuple[int, ...]:
    """Shape of one device's shard.

    Raises
    ------
    InputError
        If a dimension is not divisible by the devices that share it.
    """
    for size, cut in zip(full, layout, strict=True):
        if size % pieces(cut, shape):
            raise InputError(f"{where}: a dimension of {size} is not divisible by {pieces(cut, shape)} devices")
    return tuple(size // pieces(cut, shape) for size, cut in zip(full, layout, strict=True))
