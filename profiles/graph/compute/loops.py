"""`Local`: an operator as one device runs it: sizes and starts of its loops, and sums over those that are cut."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ....errors import InputError
from ..notation import Dims
from ..operator import Operator
from .draws import Draws

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Axes", "Comm", "Local", "join_loops", "split_loops"]

Axes = tuple[int, ...]
"""Axes of a logical mesh: (), (0,), (1,) or (0, 1)."""


class Comm(Protocol):
    """What operators need of the devices of a mesh (`runtime.training.wires.comm.MeshComm`)."""

    @property
    def shape(self) -> tuple[int, int]:
        """Of the logical mesh."""
        ...

    def size(self, axes: Axes) -> int:
        """Devices in a group along these axes."""
        ...

    def index(self, axes: Axes) -> int:
        """This device's position in its group."""
        ...

    def all_reduce(self, x: Tensor, axes: Axes) -> Tensor:
        """Sum over a group."""
        ...

    def statistic(self, x: Tensor, axes: Axes) -> Tensor:
        """Sum of a statistic over a group of devices, in a forward pass."""
        ...


@dataclass(frozen=True)
class Local:
    """One device's part of an operator.

    Parameters
    ----------
    op : Operator
        The whole operator.
    sizes : mapping
        Loop -> trip count here.
    start : mapping
        Loop -> first index of the whole that is done here; loops that are not cut may be left out.
    cut : mapping
        Loop -> mesh axes that cut it; loops that are not cut are left out.
    comm : Comm, optional
        Needed if a statistic loop is cut.
    draws : Draws, optional
        Needed if the operator draws at random.
    noted : callable, optional
        Is told the mean and variance that a norm takes, over all devices.
    """

    op: Operator
    sizes: Mapping[str, int]
    start: Mapping[str, int] = field(default_factory=dict[str, int])
    cut: Mapping[str, Axes] = field(default_factory=dict[str, Axes])
    comm: Comm | None = None
    draws: Draws | None = None
    noted: Callable[[Tensor, Tensor], None] | None = None

    @classmethod
    def of(cls, op: Operator, comm: Comm | None = None, axes: tuple[str, str] = ("", "")) -> Local:
        """An operator whose loops are cut by the mesh axes of these names; all of it without.

        Raises
        ------
        InputError
            If a loop cannot be cut, or not into so many pieces.
        """
        sizes = op.sizes
        if comm is None:
            return cls(op, sizes)
        cut: dict[str, Axes] = {}
        for axis, loop in enumerate(axes):
            if loop and comm.shape[axis] > 1:
                if loop not in op.cuttable:
                    raise InputError(f"operator {op.name!r}: loop {loop!r} cannot be cut; of {op.cuttable}")
                cut[loop] = (*cut.get(loop, ()), axis)
        start: dict[str, int] = {}
        for loop, along in cut.items():
            n = comm.size(along)
            if sizes[loop] % n:
                raise InputError(
                    f"operator {op.name!r}: loop {loop!r} of {sizes[loop]} is not divisible by {n} devices"
                )
            sizes[loop] //= n
            start[loop] = comm.index(along) * sizes[loop]
        return cls(op, sizes, start, cut, comm)

    def axes_of(self, loops: Sequence[str]) -> Axes:
        """Mesh axes that cut any of these loops."""
        return tuple(sorted(axis for loop in loops for axis in self.cut.get(loop, ())))

    def full(self, loops: Sequence[str]) -> int:
        """Product of the whole trip counts."""
        sizes = self.op.sizes
        return math.prod(sizes[loop] for loop in loops)

    def index(self, loop: str) -> Tensor:
        """The indices of the whole that are done here, shape (size,)."""
        import torch

        first = self.start.get(loop, 0)
        return torch.arange(first, first + self.sizes[loop])

    def add_up(self, x: Tensor, axes: Axes) -> Tensor:
        """Sum of gradients of a statistic over the devices along some axes."""
        return x if self.comm is None else self.comm.all_reduce(x, axes)

    def total(self, x: Tensor, axes: Axes) -> Tensor:
        """Sum of a statistic over the devices along some axes; no gradient."""
        return x if self.comm is None else self.comm.statistic(x, axes)

    def collect(self, x: Tensor, axes: Axes) -> Tensor:
        """Gather what every device along some axes has, shape (n, ...); without gradient.

        It runs as one all-reduce of a buffer in which each device fills its own row: statistics are small, and plans
        count one all-reduce for them.
        """
        import torch

        if self.comm is None or self.comm.size(axes) == 1:
            return x[None]
        rows = torch.zeros((self.comm.size(axes), *x.shape), dtype=x.dtype)
        rows[self.comm.index(axes)] = x
        return self.comm.statistic(rows, axes)


def split_loops(x: Tensor, dims: Dims, sizes: Mapping[str, int], order: Sequence[str]) -> Tensor:
    """A view with one dimension for each loop of `order`; loops that the tensor lacks have size 1."""
    have = [loop for group in dims for loop in group]
    apart = x.reshape([sizes[loop] for loop in have])
    kept = [loop for loop in order if loop in have]
    turned = apart.permute([have.index(loop) for loop in kept])
    return turned.reshape([sizes[loop] if loop in have else 1 for loop in order])


def join_loops(x: Tensor, dims: Dims, sizes: Mapping[str, int], order: Sequence[str]) -> Tensor:
    """The inverse for a tensor that has all loops of `dims`."""
    want = [loop for group in dims for loop in group]
    turned = x.permute([list(order).index(loop) for loop in want])
    return turned.reshape([math.prod(sizes[loop] for loop in group) for group in dims])
