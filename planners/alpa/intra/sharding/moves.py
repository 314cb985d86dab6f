"""`moves_of`: the single steps of resharding between the specs of a tensor, with the axes left to be summed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from .specs import Axes, ShardingSpec, SpecSet

__all__ = ["Kind", "Moves", "State", "moves_of"]

Kind = Literal["slice", "all_gather", "all_to_all", "all_reduce", "reduce_scatter"]
State = tuple[ShardingSpec, Axes]
"""How a tensor is cut, and the axes along which the devices hold parts of a sum."""


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """States of tensors of one shape, and the steps between them."""

    states: tuple[State, ...]
    index: dict[State, int]
    edges: tuple[tuple[int, int, Kind, Axes, int, int, float], ...]
    """(from, to, kind, axes, source and target dimension, share of the tensor that moves)."""


@lru_cache(maxsize=4096)
def moves_of(specs: SpecSet, scatter: bool) -> Moves:
    """All single steps, with reduce-scatters or without. The states with nothing to sum come first."""
    live = tuple(a for a in (0, 1) if specs.mesh[a] > 1)
    subsets: list[Axes] = [(), *((a,) for a in live), *([live] if len(live) == 2 else [])]
    states = tuple((s, p) for p in subsets for s in specs.specs if not s.axes & set(p))
    ids = {state: i for i, state in enumerate(states)}
    edges: list[tuple[int, int, Kind, Axes, int, int, float]] = []
    for i, (spec, sums) in enumerate(states):
        share = 1.0 / math.prod(spec.pieces(specs.mesh))
        for axes in subsets[1:]:
            here = {spec.dimension(a) for a in axes}
            where = here.pop() if len(here) == 1 else -2  # axes that move together cut one dimension, or none
            summed = set(axes) <= set(sums)
            if where == -2 or (not summed and set(axes) & set(sums)):
                continue
            rest = tuple(a for a in sums if a not in axes)
            if where >= 0 and spec.dims[where][-len(axes) :] != axes:
                continue  # not the minor-most cut
            gathered = _put(spec, axes, where, -1)
            grown = share * math.prod(specs.mesh[a] for a in axes)
            if summed:
                edges.append((i, ids[spec, rest], "all_reduce", axes, -1, -1, share))
            elif where >= 0:
                edges.append((i, ids[gathered, sums], "all_gather", axes, where, -1, grown))
            if summed and not scatter:
                continue
            kind: Kind = "reduce_scatter" if summed else "slice" if where < 0 else "all_to_all"
            for d, cut in enumerate(gathered.dims):
                if d != where and (not cut or cut[-1] < axes[0]):
                    put = (_put(gathered, axes, -1, d), rest)
                    if put in ids:
                        edges.append((i, ids[put], kind, axes, where, d, share))
    return Moves(states, ids, tuple(edges))


def _put(spec: ShardingSpec, axes: Axes, source: int, target: int) -> ShardingSpec:
    dims = list(spec.dims)
    if source >= 0:
        dims[source] = tuple(a for a in dims[source] if a not in axes)
    if target >= 0:
        dims[target] = (*dims[target], *axes)
    return ShardingSpec(tuple(dims))
