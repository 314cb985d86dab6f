"""`Loads`: what passes and messages need of links, and the same as arrays of a program."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ....reprs import Shown
from ..program.actions import Op, Program
from ..program.columns import REDUCE, B, W
from ..program.messages import Pair
from ..timing import Prepared

__all__ = ["Loaded", "Loads", "Use", "loaded"]

Use = Mapping[Hashable, float]
"""Link, under any name -> the share of it that is taken by what goes at full speed, in (0, 1]."""

OPS: tuple[Op, ...] = tuple(Op)
COMPUTING = (Op.F, Op.B, Op.W, Op.REDUCE, Op.UPDATE)


@dataclass(frozen=True, eq=False, repr=False)
class Loads(Shown):
    """What takes which share of which link.

    Parameters
    ----------
    passes : mapping, optional
        (operation, stage) -> what its collectives take while it runs, in the mean over its time.
    messages : mapping, optional
        (what, source stage, target stage) -> what a message takes.
    buckets : int
        Buckets in which a stage's gradients are reduced beside its last backward pass; 0: after it.

    Raises
    ------
    InputError
        If a share is not in (0, 1], an operation is none of F, B, W, REDUCE and UPDATE, or buckets are below 0.
    """

    passes: Mapping[tuple[Op, int], Use] = field(default_factory=lambda: MappingProxyType({}))
    messages: Mapping[Pair, Use] = field(default_factory=lambda: MappingProxyType({}))
    buckets: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.buckets, bool) or self.buckets < 0:
            raise InputError(f"loads: buckets: expected an integer >= 0 (got {self.buckets!r})")
        for op, stage in self.passes:
            if op not in COMPUTING:
                raise InputError(f"loads: passes: expected F, B, W, REDUCE or UPDATE (got {op} of stage {stage})")
        for key, use in (*self.passes.items(), *self.messages.items()):
            for link, share in use.items():
                if not 0.0 < share <= 1.0:
                    said = f"expected a share in (0, 1] of {link} (got {share})"
                    raise InputError(f"loads: {' '.join(map(str, key))}: {said}")


@dataclass(frozen=True, eq=False)
class Loaded:
    """The loads of a program, as arrays that both engines read.

    Parameters
    ----------
    links : ndarray of int32, shape (n_loads, most)
        Links of each load: first those of (operation, stage), then those of messages by pair; −1 fills the row.
    shares : ndarray, shape (n_loads, most)
        What it takes of each.
    n_links : int
        Number of links.
    of_row : ndarray of int32, shape (n,)
        Load of each action; −1 for those of no link.
    parts : ndarray of int32, shape (n,)
        Buckets of gradients that an action makes ready, one at the end of each part of it; 0 for most.
    reduces : ndarray of int64, shape (n_stages,)
        Row of each stage's reduction; −1 where there is none.
    buckets : ndarray of int32, shape (n_stages,)
        Buckets of each stage; 0 where gradients are reduced after the passes.
    """

    links: npt.NDArray[np.int32]
    shares: npt.NDArray[np.float64]
    n_links: int
    of_row: npt.NDArray[np.int32]
    parts: npt.NDArray[np.int32]
    reduces: npt.NDArray[np.int64]
    buckets: npt.NDArray[np.int32]

    def use(self, load: int) -> dict[int, float]:
        """One load as link -> share."""
        if load < 0:
            return {}
        pairs = zip(self.links[load].tolist(), self.shares[load].tolist(), strict=True)
        return {link: share for link, share in pairs if link >= 0}


def loaded(program: Program, costs: Prepared, loads: Loads) -> Loaded:
    """Lay the loads beside the actions."""
    c, n = program.columns, program.n_stages
    uses: list[Use] = [loads.passes.get((op, s), {}) for op in OPS for s in range(n)]
    uses += [loads.messages.get(pair, {}) for pair in costs.messages.pairs]
    names = _telling(uses)
    uses = [{name: share for name, share in use.items() if name in names} for use in uses]
    most = max((len(use) for use in uses), default=0)
    links = np.full((len(uses), most), -1, dtype=np.int32)
    shares = np.zeros((len(uses), most))
    for k, use in enumerate(uses):
        links[k, : len(use)] = [names[name] for name in use]
        shares[k, : len(use)] = list(use.values())
    some = np.array([bool(use) for use in uses], dtype=np.bool_)
    of_row = c.op.astype(np.int32) * n + c.stage
    of_row[~some[of_row]] = -1
    reduces = _last_rows(program, c.op == REDUCE)
    parts, buckets = np.zeros(len(c), dtype=np.int32), np.zeros(n, dtype=np.int32)
    if loads.buckets:
        whole, split = _last_rows(program, c.op == B), _last_rows(program, c.op == W)
        last = np.where(split >= 0, split, whole)  # where the weights' half is apart, it makes the gradients
        wanted = (last >= 0) & (reduces >= 0)
        wanted[wanted] = costs.duration[reduces[wanted]] > 0
        parts[last[wanted]] = loads.buckets
        buckets[wanted] = loads.buckets
    return Loaded(links, shares, len(names), of_row, parts, reduces, buckets)


def _telling(uses: Sequence[Use]) -> dict[Hashable, int]:
    """Links that can hold somebody back, numbered: no two that all take alike, none that only one load takes.

    A load goes once at a time, so that it alone never fills a link.
    """
    takers: dict[Hashable, list[tuple[int, float]]] = {}
    for k, use in enumerate(uses):
        for name, share in use.items():
            takers.setdefault(name, []).append((k, share))
    first = {tuple(taken): name for name, taken in reversed(takers.items()) if len(taken) > 1}
    kept = set(first.values())
    return {name: k for k, name in enumerate(name for name in takers if name in kept)}


def _last_rows(program: Program, which: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """For each stage, the last of these rows; −1 for none."""
    rows = np.full(program.n_stages, -1, dtype=np.int64)
    at = np.flatnonzero(which)
    np.maximum.at(rows, program.columns.stage[at], at)
    return rows
