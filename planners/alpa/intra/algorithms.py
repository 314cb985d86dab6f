"""`derive`: the parallel algorithms of an operator, from its loops (Alpa §4.1, Table 3).

Each mesh axis is mapped to one loop of the operator. That decides how operands and result are cut, and what must be
summed over devices:

- the result, along axes whose loop it does not have, in the forward pass;
- the gradient of an operand, along axes whose loop the operand does not have, in the backward pass (or once an
  iteration if it is a parameter);
- the sums of a norm, along its statistic loops, in both passes. A loss needs its statistics in the forward pass only.
  Fused attention also adds up its result along the keys.

Data parallelism maps an axis to the batch. Megatron's column- and row-parallel products map it to the output loop and
to the reduced loop, a vocabulary-parallel embedding to the rows of the table, and expert parallelism to the experts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Literal

from ....errors import InputError
from ....profiles.graph import DTYPE_BYTES, Operator, parse
from ....simulator.mesh import Collective, LogicalMesh
from .sharding.specs import Axes, ShardingSpec

__all__ = ["Algorithm", "Communication", "collectives_of", "derive", "follow"]

Phase = Literal["forward", "backward", "reduce", "update"]


@dataclass(frozen=True, slots=True)
class Communication:
    """A collective that an algorithm needs.

    Parameters
    ----------
    phase : {"forward", "backward", "reduce", "update"}
        Per microbatch, or once an iteration (reduce, update).
    collective : str
        Name of the collective.
    n_bytes : float
        Bytes on one device: of its input or its output, whichever is larger.
    axes : tuple of int
        Mesh axes along which it communicates.
    operand : int
        Whose: position of an operand, −1 for the result or statistics.
    """

    phase: Phase
    collective: Collective
    n_bytes: float
    axes: Axes
    operand: int


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One way to run an operator on a mesh.

    Parameters
    ----------
    axes : (str, str)
        Loop that each mesh axis cuts; empty: none.
    result : ShardingSpec
        Spec of the result, after sums over devices.
    operands : tuple of ShardingSpec
        Spec that each operand must be brought to.
    sums : tuple of int
        Axes along which the result is summed.
    statistics : tuple of int
        Axes along which a norm's sums are summed.
    partial : tuple of tuple of int
        Per operand the axes along which its gradient is summed.
    scattered : tuple of (int, int)
        (axis, dimension) of sums that are reduce-scattered into the result; the others are all-reduced.
    """

    axes: tuple[str, str]
    result: ShardingSpec
    operands: tuple[ShardingSpec, ...]
    sums: Axes = ()
    statistics: Axes = ()
    partial: tuple[Axes, ...] = ()
    scattered: tuple[tuple[int, int], ...] = ()

    def parts(self, mesh: Sequence[int]) -> dict[str, int]:
        """Loop -> pieces; loops that are not cut are left out."""
        found: dict[str, int] = {}
        for loop, n in zip(self.axes, mesh, strict=True):
            if loop and n > 1:
                found[loop] = found.get(loop, 1) * n
        return found

    def __str__(self) -> str:
        mapped = ", ".join(f"{loop} -> {axis}" for axis, loop in enumerate(self.axes) if loop) or "repeated"
        return f"{mapped}: {', '.join(map(str, self.operands))} -> {self.result}"


def derive(op: Operator, mesh: LogicalMesh, scatter: bool = False, repeat: bool = False) -> tuple[Algorithm, ...]:
    """All parallel algorithms of an operator on a mesh.

    Every axis of more than one device is mapped to a loop. Only if no mapping divides evenly, the axes that do not fit
    repeat the work.

    Parameters
    ----------
    op : Operator
        The operator to be run.
    mesh : LogicalMesh
        The logical mesh that it runs on.
    scatter : bool
        Also algorithms whose sums are reduce-scattered into a dimension of the result (sequence parallelism).
    repeat : bool
        Also algorithms in which an axis repeats the work.
    """
    return _derive(op.kind, op.formula, op.cuttable, _shape_key(op), mesh.shape, scatter, repeat)


def follow(op: Operator, operand: int, spec: ShardingSpec, mesh: LogicalMesh) -> Algorithm:
    """The algorithm of an operator that takes over the cut of one operand, as far as its loops allow."""
    return _follow(op.kind, op.formula, op.cuttable, _shape_key(op), operand, spec, mesh.shape)


def collectives_of(
    op: Operator,
    algorithm: Algorithm,
    mesh: LogicalMesh,
    dtypes: Sequence[str] | None = None,
    parameters: Sequence[int] = (),
) -> tuple[Communication, ...]:
    """What an algorithm communicates, if all its operands have gradients.

    Parameters
    ----------
    op, algorithm, mesh
        See `derive`.
    dtypes : sequence of str, optional
        Types of the operands; by default the result's type.
    parameters : sequence of int
        Operands that are parameters: their gradients are summed once an iteration.
    """
    sizes = op.sizes
    item = DTYPE_BYTES[op.dtype]
    found: list[Communication] = []
    formula = op.parsed
    before = _specs(op.formula, algorithm.axes)[0]  # the result before it is scattered
    whole = float(before.local_bytes(op.shape_of(formula.result), item, mesh.shape))
    if algorithm.statistics:
        pieces = algorithm.parts(mesh.shape)
        others = (x for x in op.loops if x.split != "statistic" and x.split != "whole")
        values = math.prod(sizes[x.name] // pieces.get(x.name, 1) for x in others)
        # With the statistic of its rows each device has its part of a loss's gradient.
        phases: tuple[Phase, ...] = ("forward",) if op.kind == "loss" else ("forward", "backward")
        for phase in phases:
            found.append(Communication(phase, "all_reduce", float(values * item), algorithm.statistics, -1))
    left = tuple(a for a in algorithm.sums if a not in dict(algorithm.scattered))
    local = whole
    for axes in _scatters(algorithm.scattered):
        found.append(Communication("forward", "reduce_scatter", local, axes, -1))
        local /= math.prod(mesh.shape[a] for a in axes)
    if left:
        found.append(Communication("forward", "all_reduce", local, left, -1))
    for axes in reversed(_scatters(algorithm.scattered)):
        local *= math.prod(mesh.shape[a] for a in axes)
        found.append(Communication("backward", "all_gather", local, axes, -1))
    for k, (dims, spec, axes) in enumerate(zip(formula.operands, algorithm.operands, algorithm.partial, strict=True)):
        if axes:
            size = DTYPE_BYTES[dtypes[k]] if dtypes is not None else item
            n_bytes = float(spec.local_bytes(op.shape_of(dims), size, mesh.shape))
            phase = "reduce" if k in parameters else "backward"
            found.append(Communication(phase, "all_reduce", n_bytes, axes, k))
    return tuple(found)


_Key = tuple[tuple[str, int, str], ...]


def _shape_key(op: Operator) -> _Key:
    return tuple((x.name, x.size, x.split) for x in op.loops)


def _scatters(scattered: tuple[tuple[int, int], ...]) -> tuple[Axes, ...]:
    """Axes that are scattered in one collective each: both into one dimension go together."""
    if len(scattered) == 2 and scattered[0][1] == scattered[1][1]:
        return ((0, 1),)
    return tuple((a,) for a, _ in scattered)


@lru_cache(maxsize=65536)
def _derive(
    kind: str, formula: str, cuttable: tuple[str, ...], loops: _Key, mesh: tuple[int, int], scatter: bool, repeat: bool
) -> tuple[Algorithm, ...]:
    sizes: Mapping[str, int] = {name: size for name, size, _ in loops}
    free = [("", *(x for x in cuttable if sizes[x] % n == 0)) if n > 1 else ("",) for n in mesh]
    mappings = [(a, b) for a, b in product(*free) if not (a and a == b and sizes[a] % (mesh[0] * mesh[1]))]
    if not repeat:
        used = [(mesh[0] if a else 1) * (mesh[1] if b else 1) for a, b in mappings]
        mappings = [m for m, n in zip(mappings, used, strict=True) if n == max(used)]
    found = [_algorithm(kind, formula, loops, mapping) for mapping in mappings]
    if scatter:
        found = [x for plain in found for x in (plain, *_scattered(formula, sizes, mesh, plain))]
    return tuple(found)


@lru_cache(maxsize=65536)
def _follow(
    kind: str,
    formula: str,
    cuttable: tuple[str, ...],
    loops: _Key,
    operand: int,
    spec: ShardingSpec,
    mesh: tuple[int, int],
) -> Algorithm:
    sizes = {name: size for name, size, _ in loops}
    axes = ["", ""]
    for group, cut in zip(parse(formula).operands[operand], spec.dims, strict=True):
        left = sizes[group[0]] if group and group[0] in cuttable else 1
        for a in cut:
            if left % mesh[a]:
                break
            axes[a] = group[0]
            left //= mesh[a]
    return _algorithm(kind, formula, loops, (axes[0], axes[1]))


def _specs(formula: str, axes: tuple[str, str]) -> tuple[ShardingSpec, ...]:
    """Specs of the result and the operands, the result as if nothing were reduced."""
    parsed = parse(formula)

    def spec(dims: tuple[tuple[str, ...], ...]) -> ShardingSpec:
        return ShardingSpec(tuple(tuple(a for a in (0, 1) if axes[a] and g and g[0] == axes[a]) for g in dims))

    return tuple(spec(dims) for dims in (parsed.result, *parsed.operands))


def _algorithm(kind: str, formula: str, loops: _Key, axes: tuple[str, str]) -> Algorithm:
    parsed = parse(formula)
    split = {name: how for name, _, how in loops}
    mapped = [a for a in (0, 1) if axes[a]]
    result, *operands = _specs(formula, axes)
    statistics = tuple(a for a in mapped if split[axes[a]] == "statistic")
    # What a statistic loop reduces is added up with the statistic; fused attention's values are a sum of their own.
    within = () if kind == "attention" else statistics
    sums = tuple(a for a in mapped if axes[a] in parsed.reduced and a not in within)
    partial = tuple(
        tuple(a for a in mapped if axes[a] not in {x for group in dims for x in group}) for dims in parsed.operands
    )
    return Algorithm(axes, result, tuple(operands), sums, statistics, partial)


def _scattered(formula: str, sizes: Mapping[str, int], mesh: tuple[int, int], plain: Algorithm) -> list[Algorithm]:
    """Variants of an algorithm with some of its sums scattered into dimensions of the result."""
    groups = parse(formula).result
    shape = tuple(math.prod(sizes[x] for x in group) for group in groups)
    found: list[Algorithm] = []
    for places in product(*(range(-1, len(shape)) for _ in plain.sums)):
        scattered = tuple((a, d) for a, d in zip(plain.sums, places, strict=True) if d >= 0)
        dims = [list(axes) for axes in plain.result.dims]
        for a, d in scattered:
            dims[d].append(a)
        cuts = tuple(tuple(axes) for axes in dims)
        if not scattered or (1, 0) in cuts:
            continue
        spec = ShardingSpec(cuts)
        if spec.valid(shape, mesh):
            found.append(
                Algorithm(plain.axes, spec, plain.operands, plain.sums, plain.statistics, plain.partial, scattered)
            )
    return found


def check_mesh(mesh: object) -> LogicalMesh:
    """What solvers are given as a mesh, if it is one.

    Raises
    ------
    InputError
        If it is not a two-dimensional logical mesh.
    """
    if not isinstance(mesh, LogicalMesh):
        raise InputError(f"mesh: expected a two-dimensional LogicalMesh, such as Mesh(…).view((2, 4)) (got {mesh!r})")
    return mesh
