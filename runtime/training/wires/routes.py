"""`Route`: the collectives that bring a tensor from one layout to another, the cheapest by the cluster's links.

If devices along some axes hold partial sums of the tensor, it is summed on the way. An axis joins or leaves a dimension
only as its minor-most cut, so that each shard stays contiguous: S01 is gathered along axis 1, or along both at once.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, cast

from ....errors import InputError
from ....simulator.mesh import Collective, LogicalMesh
from .comm import Axes, MeshComm
from .layout import Layout, pieces

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Hop", "Route", "finish", "route"]


@dataclass(frozen=True, slots=True)
class Hop:
    """One step of a route: a collective, or a slice, which moves nothing.

    Parameters
    ----------
    kind : {"slice", "all_gather", "all_to_all", "all_reduce", "reduce_scatter"}
        Kind of the step.
    axes : tuple of int
        Mesh axes along which it works.
    dim : int
        Dimension that is cut before the step (all_gather, all_to_all) or after it (slice, reduce_scatter).
    other : int
        Dimension that an all-to-all cuts instead.
    """

    kind: Literal["slice", "all_gather", "all_to_all", "all_reduce", "reduce_scatter"]
    axes: Axes
    dim: int = -1
    other: int = -1

    def run(self, comm: MeshComm, x: Tensor) -> Tensor:
        """Run the step on this rank's shard; returns the new shard."""
        if self.kind == "slice":
            return comm.slice(x, self.axes, self.dim)
        if self.kind == "all_gather":
            return comm.all_gather(x, self.axes, self.dim)
        if self.kind == "all_to_all":
            return comm.all_to_all(x, self.axes, self.dim, self.other)
        if self.kind == "reduce_scatter":
            return comm.reduce_scatter(x, self.axes, self.dim)
        return comm.all_reduce(x, self.axes)


@dataclass(frozen=True, slots=True)
class Route:
    """Hops, one after another."""

    hops: tuple[Hop, ...] = ()

    def run(self, comm: MeshComm, x: Tensor) -> Tensor:
        """Run all steps on this rank's shard; returns the shard in the target layout."""
        for hop in self.hops:
            x = hop.run(comm, x)
        return x

    def back(self, comm: MeshComm, gradient: Tensor) -> Tensor:
        """Bring the gradient of a tensor that came along this route back; the gradient is whole, not a partial sum.

        So an all-reduce needs no step back: every device already has the gradient of its own summand.
        """
        for hop in reversed(self.hops):
            if hop.kind in ("slice", "reduce_scatter"):
                gradient = comm.all_gather(gradient, hop.axes, hop.dim)
            elif hop.kind == "all_gather":
                gradient = comm.slice(gradient, hop.axes, hop.dim)
            elif hop.kind == "all_to_all":
                gradient = comm.all_to_all(gradient, hop.axes, hop.other, hop.dim)
        return gradient


_State = tuple[Layout, Axes]


# A stage asks for some routes per operator and shape; the bound, a guess, only keeps long sessions from growing.
@lru_cache(maxsize=16384)
def route(
    source: Layout, target: Layout, full: tuple[int, ...], itemsize: int, mesh: LogicalMesh, parts: Axes = (),
    fused: bool = False,
) -> Route:  # fmt: skip
    """The cheapest route by Dijkstra's algorithm; of equally cheap ones the one with the fewest hops.

    Parameters
    ----------
    source, target : Layout
        Layouts before and after.
    full : tuple of int
        Shape of the whole tensor.
    itemsize : int
        Bytes of an element.
    mesh : LogicalMesh
        The mesh whose links carry it.
    parts : tuple of int
        Axes along which the source holds partial sums.
    fused : bool
        Whether the tensor is taken as one of many in a message, without a message's fixed cost. Plans count weights and
        their gradients so.
    """
    # Every hop costs a millionth of an all-gather besides: far above rounding, so that of routes that are equally cheap
    # but for rounding the one with fewer hops wins, and far below real differences.
    least = 1e-6 * _seconds(mesh, Hop("all_gather", (0, 1)), float(math.prod(full) * itemsize), fused)
    start: _State = (source, tuple(sorted(a for a in set(parts) if mesh.shape[a] > 1)))
    # `order` breaks the last ties, so that all ranks, each for itself, choose the same route.
    heap: list[tuple[float, int, tuple[int, ...], _State, tuple[Hop, ...]]] = [(0.0, 0, (), start, ())]
    done: set[_State] = set()
    while heap:
        cost, count, order, state, path = heapq.heappop(heap)
        if state == (target, ()):
            return Route(path)
        if state in done:
            continue
        done.add(state)
        for turn, (hop, reached, n_bytes) in enumerate(_hops(*state, full, itemsize, mesh.shape)):
            if reached not in done:
                seconds = 0.0 if hop.kind == "slice" else _seconds(mesh, hop, n_bytes, fused)
                heapq.heappush(heap, (cost + seconds + least, count + 1, (*order, turn), reached, (*path, hop)))
    raise InputError(f"no way from layout {source} to {target} of a tensor of shape {full} on a mesh {mesh.shape}")


def _seconds(mesh: LogicalMesh, hop: Hop, n_bytes: float, fused: bool) -> float:
    kind = cast("Collective", hop.kind)
    return (mesh.shared_seconds if fused else mesh.seconds)(kind, n_bytes, hop.axes)


def _hops(
    layout: Layout, parts: Axes, full: tuple[int, ...], itemsize: int, shape: tuple[int, int]
) -> Iterator[tuple[Hop, _State, float]]:
    """Every step from a state: the hop, the state that it leads to, and bytes on a device (of the larger side).

    A state is a layout and the axes along which the tensor is still to be summed.
    """
    live = tuple(a for a in (0, 1) if shape[a] > 1)
    own = math.prod(full) * itemsize / math.prod(pieces(cut, shape) for cut in layout)
    for axes in [*((a,) for a in live), *([live] if len(live) == 2 else [])]:
        here = {next((d for d, cut in enumerate(layout) if a in cut), -1) for a in axes}
        summed = set(axes) <= set(parts)
        if len(here) > 1 or (not summed and set(axes) & set(parts)):
            continue
        (where,) = here
        if where >= 0 and layout[where][-len(axes) :] != axes:
            continue  # not the minor-most cut
        rest = tuple(a for a in parts if a not in axes)
        without = _put(layout, axes, where, -1)
        if summed:
            yield Hop("all_reduce", axes), (layout, rest), own
        elif where >= 0:
            yield Hop("all_gather", axes, where), (without, parts), own * pieces(axes, shape)
        for d, cut in enumerate(without):
            if d != where and (not cut or cut[-1] < axes[0]):
                put = _put(without, axes, -1, d)
                if full[d] % pieces(put[d], shape) == 0:
                    if summed:
                        yield Hop("reduce_scatter", axes, d), (put, rest), own
                    elif where < 0:
                        yield Hop("slice", axes, d), (put, rest), own
                    else:
                        yield Hop("all_to_all", axes, where, d), (put, rest), own


def _put(layout: Layout, axes: Axes, source: int, target: int) -> Layout:
    dims = list(layout)
    if source >= 0:
        dims[source] = tuple(a for a in dims[source] if a not in axes)
    if target >= 0:
        dims[target] = (*dims[target], *axes)
    return tuple(dims)


def finish(made: Layout, parts: Axes, target: Layout, full: tuple[int, ...], itemsize: int, mesh: LogicalMesh) -> Route:
    """The route that sums an operator's result, where devices hold partial sums, and brings it to its planned layout.

    Where the target cuts a dimension by axes of the sum, a reduce-scatter sums and cuts at once; along other axes an
    all-reduce sums.
    """
    parts = tuple(axis for axis in parts if mesh.shape[axis] > 1)
    hops: list[Hop] = []
    layout = list(made)
    for d, (have, want) in enumerate(zip(made, target, strict=True)):
        more = want[len(have) :]
        if more and want[: len(have)] == have and set(more) <= set(parts):
            hops.append(Hop("reduce_scatter", more, d))
            layout[d] = want
            parts = tuple(axis for axis in parts if axis not in more)
    if parts:
        hops.append(Hop("all_reduce", parts))  # after the reduce-scatters, which leave less to be summed
    return Route((*hops, *route(tuple(layout), target, full, itemsize, mesh).hops))
