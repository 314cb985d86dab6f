"""Costs of a whole space: rules first, once for all that differ in what no rule depends on; then what is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...simulator import Cluster
from ...simulator.training import DeviceRates, Stack, TransformerShape
from ...simulator.training.configuration.columns import RECOMPUTE, Columns
from ...simulator.training.configuration.estimate import costs_of, kernels_of
from ...simulator.training.configuration.rules import rule_text
from . import space as rows_at_once
from .means import AXES, FREE, NAMES, Choices, Means
from .space import Space

if TYPE_CHECKING:
    from ...profiles.llm import KernelTables

__all__ = ["Asked", "Table", "evaluate"]

Table = dict[str, NDArray[Any]]
COSTS = ("seconds", "peak_bytes", "device_bytes", "mfu")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Asked(Means):
    """The means that are tried, and what a combination of them costs.

    Parameters
    ----------
    dtype : str
        "bf16", "fp16" or "fp32".
    tables, rates : KernelTables, DeviceRates, optional
        As in `estimate`.
    memory_bytes : float, optional
        As in `estimate`; `search` gives its own.
    """

    dtype: str = "bf16"
    tables: KernelTables | None = None
    rates: DeviceRates | None = None
    memory_bytes: float | None = None

    @property
    def means(self) -> dict[str, Choices]:
        """The means by name, as `Space.of` takes them."""
        return {name: getattr(self, name) for name in NAMES}

    @property
    def costs(self) -> dict[str, Any]:
        """What `estimate` and `estimate_many` are told of costs."""
        return {name: getattr(self, name) for name in ("dtype", "tables", "rates", "memory_bytes")}


@dataclass(frozen=True, slots=True)
class Heads:
    """Combinations of some axes that break no rule: where each is in the order of the whole space, with the first
    choice of all other axes, and the choice of each axis."""

    places: NDArray[np.int64]
    index: dict[str, NDArray[np.int32]]


LEVELS: tuple[tuple[tuple[str, ...], int], ...] = (
    (("degrees",), 6), (("interleave", "first_layers", "last_layers"), 8), (("microbatch",), 10),
    (("sequence_parallel",), 14), (("context",), 15), (("ep", "etp"), 19), (("overlap_experts",), 20),
    (("zero", "shard", "reshard"), 22), (("schedule",), 23),
)  # fmt: skip
"""Axes in the order in which they are chosen, and the last rule (`rules.PROBLEMS`) that can be seen with them: a rule
looks at none of the axes that are chosen later."""


def possible(shape: TransformerShape, cluster: Cluster, space: Space) -> tuple[Heads, dict[int, int]]:
    """All combinations but for the axes that are free which break no rule, and how many of the space break which
    rule first. A beginning that breaks a rule is not continued, and counts for all of its ends."""
    lengths = space.lengths
    strides = dict(zip(AXES, np.cumprod([1, *reversed(lengths.values())])[:-1][::-1].tolist(), strict=True))
    places: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
    index: dict[str, NDArray[np.int32]] = {name: np.zeros(1, dtype=np.int32) for name in AXES}
    left, broken = space.rows, Counter[int]()
    for axes, last in LEVELS:
        for name in axes:
            count = lengths[name]
            left //= count
            if count > 1:
                choice = np.tile(np.arange(count, dtype=np.int32), len(places))
                index = {other: np.repeat(at, count) for other, at in index.items()} | {name: choice}
                places = np.repeat(places, count) + choice.astype(np.int64) * strides[name]
        problem = Columns.of(global_batch=space.global_batch, **space.chosen(index)).problems(shape, cluster)
        wrong = (problem > 0) & (problem <= last)
        for code, many in enumerate(np.bincount(problem[wrong])):
            broken[code] += int(many) * left
        keep = np.flatnonzero(~wrong)
        places, index = places[keep], {other: at[keep] for other, at in index.items()}
    return Heads(places, index), {code: many * len(space.stacks) for code, many in broken.items() if many}


def evaluate(
    shape: TransformerShape,
    cluster: Cluster,
    space: Space,
    costs: dict[str, Any],
    progress: Callable[[str], None] | None,
) -> tuple[Table, dict[str, int], int]:
    """Costs of all that is possible and no repetition, as columns in the order of the space; how many break which rule
    first; how many repeat another."""
    kernels = kernels_of(cluster, costs["dtype"], costs["tables"], costs["rates"])
    heads, broken = possible(shape, cluster, space)
    rest = [name for name in AXES if name in FREE]
    tails = prod(space.lengths[name] for name in rest)
    tail = space.at(np.arange(tails), rest)
    behind = space.places(np.arange(tails), rest)  # how much later in the order of the space
    flops = 3.0 * space.global_batch * shape.seq * sum(shape.forward_flops())
    scale = cluster.n_devices * kernels.peak
    limit = costs["memory_bytes"] or cluster.spec.memory_bytes
    parts: list[Table] = []
    places: list[NDArray[np.int64]] = []
    repeats = 0
    step = max(rows_at_once.CHUNK // tails, 1)
    for first in range(0, len(heads.places), step):
        some = slice(first, first + step)
        at = heads.places[some]
        over, under = np.repeat(np.arange(len(at)), tails), np.tile(np.arange(tails), len(at))
        head = space.chosen({name: index[some] for name, index in heads.index.items()})
        columns = {name: _rows(column, over) for name, column in head.items()}
        columns |= {name: _rows(column, under) for name, column in tail.items()}
        order = (at[:, None] + behind).reshape(-1)
        for number, stack in enumerate(space.stacks):
            again = _repeats(columns, stack, space)
            repeats += int(again.sum())
            rows = np.flatnonzero(~again)
            if not len(rows):
                continue
            asked = Columns.of(global_batch=space.global_batch, **columns).take(rows)
            seconds, peak, device = costs_of(shape, cluster, kernels, stack, asked, limit)
            found: Table = {name: getattr(asked, name) for name in NAMES}
            found |= {"stack": np.broadcast_to(np.int64(number), len(rows)), "seconds": seconds, "peak_bytes": peak}
            parts.append(found | {"device_bytes": device, "mfu": flops / (seconds * scale)})
            places.append(order[rows] + number * space.rows)
        if progress:
            done = min(first + step, len(heads.places)) * tails * len(space.stacks)
            progress(f"{done:,} of {len(heads.places) * tails * len(space.stacks):,} possible ones of {len(space):,}")
    if not parts:
        return {name: np.empty(0) for name in (*NAMES, "stack", *COSTS)}, _by_rule(shape, cluster, broken), repeats
    where = np.concatenate(places)
    table = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if (np.diff(where) < 0).any():
        sort = np.argsort(where, kind="stable")
        table = {name: column[sort] for name, column in table.items()}
    return table, _by_rule(shape, cluster, broken), repeats


def _by_rule(shape: TransformerShape, cluster: Cluster, broken: dict[int, int]) -> dict[str, int]:
    return {rule_text(code, shape, cluster): broken[code] for code in sorted(broken)}


def _rows(column: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    """Rows of a column; one number that was spread over all stays one."""
    return np.broadcast_to(column[:1], rows.shape) if column.strides == (0,) else column[rows]


def _repeats(columns: Table, stack: Stack, space: Space) -> NDArray[np.bool_]:
    """Rows with something switched on that does nothing, while the space has the same row without it."""
    choices = space.choices
    again = np.zeros(len(columns["tp"]), dtype=bool)
    replicas = columns["dp"] * columns["cp"]
    if False in choices["sequence_parallel"]:
        again |= columns["sequence_parallel"] & (columns["tp"] == 1)
    etp = np.where(columns["etp"] == 0, columns["tp"], columns["etp"])
    alone = (replicas == 1) & (columns["tp"] <= columns["ep"] * etp)  # no weight is anywhere else, experts' neither
    again |= (columns["zero"] > choices["zero"][0]) & alone
    if stack.flash and "none" in choices["recompute"]:  # a fused kernel recomputes scores by itself
        again |= columns["recompute"] == RECOMPUTE.index("selective")
    if len(choices["context"]) > 1:
        again |= (columns["context"] > 0) & (columns["cp"] == 1)
    if 0 in choices["etp"]:
        again |= (columns["etp"] > 0) & (columns["etp"] == columns["tp"])
    again |= _even(columns, space)
    if 0 in choices["shard"]:
        again |= (columns["shard"] > 0) & (columns["shard"] == replicas)
    return again


def _even(columns: Table, space: Space) -> NDArray[np.bool_]:
    """Rows that give an end as many layers as the other stages have, while the space has the same row without."""
    first, last = columns["first_layers"], columns["last_layers"]
    found = np.zeros(len(first), dtype=bool)
    if not (first.any() or last.any()):
        return found
    others = np.maximum(columns["pp"] - (first > 0) - (last > 0), 1)
    middle = (space.layers - first - last) // others
    for name, given in (("first_layers", first), ("last_layers", last)):
        if 0 in space.choices[name]:
            found |= (given > 0) & (given == middle)
    return found
