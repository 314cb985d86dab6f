"""Resharding: the cheapest sequence of slices, all-gathers and all-to-alls between two specs (Alpa §4.1, Table 2).

A tensor that a reduced loop has left as partial sums is brought into a spec by all-reduces or reduce-scatters as well.
The cheapest sequence is a shortest path over all valid specs, with the partial axes beside them.

An axis joins or leaves a dimension as its minor-most cut, so slices stay contiguous: S01 is gathered along axis 1, or
along both axes at once, never along axis 0 alone.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .....errors import InputError
from .....simulator.mesh import Collective, LogicalMesh
from ...solver.problem import Floats
from .moves import Kind, Moves, State, moves_of
from .specs import Axes, ShardingSpec, spec_set

__all__ = ["Resharding", "Step", "check_links", "collective_seconds", "gradient_costs", "reshard", "reshard_costs"]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a resharding, done by all groups of devices along its axes at once.

    Parameters
    ----------
    kind : {"slice", "all_gather", "all_to_all", "all_reduce", "reduce_scatter"}
        Kind of the step.
    axes : tuple of int
        Mesh axes along which it communicates.
    source, target : int
        Dimension that these axes cut before and after; −1 for none.
    n_bytes : float
        Of a device's larger side, as `simulator.mesh.COLLECTIVES` counts them.
    seconds : float
        Time; 0 for slices.
    spec : ShardingSpec
        Spec of the tensor after the step.
    partial : tuple of int
        Axes along which the values are still to be summed after it.
    """

    kind: Kind
    axes: Axes
    source: int
    target: int
    n_bytes: float
    seconds: float
    spec: ShardingSpec
    partial: Axes = ()


@dataclass(frozen=True, slots=True)
class Resharding:
    """Steps from one spec to another, in order.

    Parameters
    ----------
    source, target : ShardingSpec
        Specs before and after.
    steps : tuple of Step
        Empty if nothing is to be done.
    """

    source: ShardingSpec
    target: ShardingSpec
    steps: tuple[Step, ...]

    @property
    def seconds(self) -> float:
        """Time of all steps."""
        return sum(step.seconds for step in self.steps)


def reshard(
    source: ShardingSpec,
    target: ShardingSpec,
    shape: Sequence[int],
    itemsize: int,
    mesh: LogicalMesh,
    partial: Iterable[int] = (),
    scatter: bool = True,
    fused: bool = False,
) -> Resharding:
    """The cheapest way from one spec to another; of several, one with the fewest steps.

    Parameters
    ----------
    source, target : ShardingSpec
        From and to; axes of one device must not occur.
    shape : sequence of int
        Full shape of the tensor.
    itemsize : int
        Bytes of an element.
    mesh : LogicalMesh
        The logical mesh that it runs on.
    partial : iterable of int
        Axes along which the source is still to be summed; none of them may cut it.
    scatter : bool
        Whether sums may be reduce-scattered; else they are all-reduced first.
    fused : bool
        Whether it is one of many that travel in one message, as gradients do: the fixed cost of a message is left out.

    Raises
    ------
    InputError
        If a spec does not go with the shape, or a link has no bandwidth.
    """
    axes = tuple(sorted(a for a in set(partial) if mesh.shape[a] > 1))
    return _reshard(source, target, tuple(shape), itemsize, mesh, axes, scatter, fused)


@lru_cache(maxsize=65536)
def _reshard(
    source: ShardingSpec,
    target: ShardingSpec,
    shape: tuple[int, ...],
    itemsize: int,
    mesh: LogicalMesh,
    axes: Axes,
    scatter: bool,
    fused: bool,
) -> Resharding:
    specs = spec_set(shape, mesh.shape)
    if source == target and not axes and source in specs.index:
        return Resharding(source, target, ())
    moves = moves_of(specs, scatter)
    ids = moves.index
    start, goal = ids.get((source, axes)), ids.get((target, ()))
    if start is None or goal is None:
        bad = target if goal is None else source
        raise InputError(
            f"resharding: spec {bad} does not go with shape {shape} on a mesh {mesh.shape}"
            + (f" with sums along {axes}" if goal is not None and axes else "")
        )
    n_bytes = float(math.prod(shape) * itemsize)
    return Resharding(source, target, _path(moves, _seconds(moves, n_bytes, mesh, fused), start, goal, n_bytes))


def reshard_costs(shape: Sequence[int], itemsize: int, mesh: LogicalMesh, fused: bool = False) -> Floats:
    """Seconds between all specs of a shape, [source, target], numbered as in `spec_set`; `fused` as in `reshard`."""
    return _closure(tuple(shape), itemsize, mesh, False, fused)[0]


def gradient_costs(
    shape: Sequence[int], itemsize: int, mesh: LogicalMesh, fused: bool = False
) -> tuple[Floats, dict[State, int]]:
    """Seconds from every spec with any sums left to every spec, and the row of each (spec, axes to be summed)."""
    return _closure(tuple(shape), itemsize, mesh, True, fused)


def check_links(mesh: LogicalMesh) -> None:
    """Refuse a mesh whose links cannot carry anything.

    Raises
    ------
    InputError
        If the bandwidth along an axis of more than one device is not positive.
    """
    for axes in ((0,), (1,), (0, 1)):
        if mesh.size(axes) > 1:
            bandwidth = mesh.link(axes).bandwidth_bytes_per_s
            if not bandwidth > 0:
                raise InputError(
                    f"mesh {mesh.shape}: the links along axis {'01'[axes[0] :][: len(axes)]} have a bandwidth of"
                    f" {bandwidth:g} bytes/s; give the device a link that carries something"
                )


def collective_seconds(mesh: LogicalMesh, kind: Collective, n_bytes: float, axes: Axes, fused: bool = False) -> float:
    """Seconds of a collective; `fused`: of a tensor that travels with others (`LogicalMesh.shared_seconds`)."""
    return (mesh.shared_seconds if fused else mesh.seconds)(kind, n_bytes, axes)


def _seconds(moves: Moves, n_bytes: float, mesh: LogicalMesh, fused: bool) -> list[float]:
    memo: dict[tuple[str, Axes, float], float] = {}
    found: list[float] = []
    for _, _, kind, axes, _, _, share in moves.edges:
        key = (kind, axes, share)
        if key not in memo:
            memo[key] = 0.0 if kind == "slice" else collective_seconds(mesh, kind, share * n_bytes, axes, fused)
        found.append(memo[key])
    return found


@lru_cache(maxsize=16384)
def _closure(
    shape: tuple[int, ...], itemsize: int, mesh: LogicalMesh, sums: bool, fused: bool
) -> tuple[Floats, dict[State, int]]:
    specs = spec_set(shape, mesh.shape)
    moves = moves_of(specs, True)
    n = len(moves.states)
    cost = np.full((n, n), np.inf)
    seconds = _seconds(moves, float(math.prod(shape) * itemsize), mesh, fused)
    for (i, j, *_), s in zip(moves.edges, seconds, strict=True):
        cost[i, j] = min(cost[i, j], s)
    np.fill_diagonal(cost, 0.0)
    k = len(specs.specs)  # the states with nothing to sum come first, and no path leaves them
    for at in range(k):
        np.minimum(cost, cost[:, at, None] + cost[at], out=cost)
    if not sums:
        plain = cost[:k, :k].copy()
        plain.setflags(write=False)
        return plain, {}
    for at in range(k, n):
        np.minimum(cost, cost[:, at, None] + cost[at], out=cost)
    rows = cost[:, :k].copy()
    rows.setflags(write=False)
    return rows, moves.index


def _path(moves: Moves, seconds: list[float], start: int, goal: int, n_bytes: float) -> tuple[Step, ...]:
    """Shortest path, the same one every time: of those that differ by rounding only, one with the fewest steps."""
    # Each step costs a little more than it does, so that of two paths that differ by rounding the shorter one wins.
    step = 1e-10 * max(seconds, default=0.0)
    leaving: dict[int, list[int]] = {}
    for e, (i, *_) in enumerate(moves.edges):
        leaving.setdefault(i, []).append(e)
    heap: list[tuple[float, int, tuple[int, ...], int]] = [(0.0, 0, (), start)]
    done: set[int] = set()
    while heap:
        cost, hops, path, at = heapq.heappop(heap)
        if at == goal:
            return tuple(_step(moves, seconds, e, n_bytes) for e in path)
        if at in done:
            continue
        done.add(at)
        for e in leaving.get(at, ()):
            j = moves.edges[e][1]
            if j not in done:
                heapq.heappush(heap, (cost + seconds[e] + step, hops + 1, (*path, e), j))
    raise AssertionError  # gathering everything and slicing leads anywhere


def _step(moves: Moves, seconds: list[float], e: int, n_bytes: float) -> Step:
    _, j, kind, axes, source, target, share = moves.edges[e]
    spec, partial = moves.states[j]
    return Step(kind, axes, source, target, share * n_bytes, seconds[e], spec, partial)
