"""Costs of several schedulers side by side, and the seconds of an iteration in each stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .....jit import inner
from .....profiles.llm.cost.grid import CostGrid
from ..prices import price_of
from ..rules import BARE, seconds_of
from .tables import EVENLY, LAST, PART, Prices

__all__ = ["prices_of", "priced", "through"]

_LENGTHS = (
    "dense", "head", "decode_x", "decode_y", "prefill_x", "prefill_y", "mixed_new", "mixed_before", "mixed_decodes",
    "mixed_context", "experts",
)  # fmt: skip
_COUNTS = {"graph_tokens": np.int64, "ranks": np.int64, "overlapped": np.bool_}
"""Fields of `CostGrid` that are no seconds."""

_inline: Any = inner(**BARE)


def prices_of(costs: Sequence[Any]) -> Prices:
    """The costs of schedulers in numbers; one that several have stands there once."""
    place: dict[int, int] = {}
    of = [place.setdefault(id(cost), len(place)) for cost in costs]
    different = [costs[of.index(p)] for p in range(len(place))]
    given = [price_of(cost, None) for cost in different]
    grids: list[CostGrid] = [price.grid for price in given]
    most = max(price.top.service.shape[1] for price in given)
    # The last factor holds beyond its number of decodes.
    service = [np.pad(s, ((0, 0), (0, most - s.shape[1])), mode="edge") for s in (p.top.service for p in given)]
    splits = [_split(cost) for cost in different]
    return Prices(
        of=np.array(of),
        kind=np.array([price.kind for price in given]),
        line=np.stack([price.line for price in given]),
        service=np.stack(service),
        split=np.array([split for split, _ in splits]),
        share=np.array([share for _, share in splits]),
        size=np.array([[len(getattr(grid, name)) for name in _LENGTHS] for grid in grids]),
        grid=CostGrid(*(_stacked(name, [getattr(grid, name) for grid in grids]) for name in CostGrid._fields)),
    )


def _split(cost: Any) -> tuple[int, float]:
    """How stages share an iteration of this cost (`fleet.stages.stage_seconds`), and the slowest one's part."""
    if not hasattr(cost, "interval"):
        return EVENLY, 0.0
    if cost.pp == 1:
        return LAST, 1.0
    return PART, -(-cost.model.layers // cost.pp) / cost.model.layers


def _stacked(name: str, parts: list[Any]) -> Any:
    """One field of several grids, filled up with zeros to the largest."""
    many = [np.asarray(part, dtype=_COUNTS.get(name, np.float64)) for part in parts]
    wide = np.zeros((len(many), *map(max, zip(*(part.shape for part in many), strict=True))), dtype=many[0].dtype)
    for row, part in zip(range(len(many)), many, strict=True):
        wide[(row, *map(slice, part.shape))] = part
    return wide


@_inline
def _grid(prices: Any, p: int) -> Any:
    """One grid, cut to its own size."""
    g, n = prices.grid, prices.size[p]
    return CostGrid(
        g.dense[p, : n[0]],
        g.head[p, : n[1]],
        g.decode_x[p, : n[2]],
        g.decode_y[p, : n[3]],
        g.decode[p, : n[2], : n[3]],
        g.prefill_x[p, : n[4]],
        g.prefill_y[p, : n[5]],
        g.prefill[p, : n[4], : n[5]],
        g.mixed_new[p, : n[6]],
        g.mixed_before[p, : n[7]],
        g.mixed_decodes[p, : n[8]],
        g.mixed_context[p, : n[9]],
        g.mixed[p, : n[6], : n[7], : n[8], : n[9]],
        g.scheduler_s[p],
        g.per_sequence_s[p],
        g.host_decode_s[p],
        g.host_pieces_s[p],
        g.host_eager_s[p],
        g.graph_tokens[p],
        g.overlapped[p],
        g.chunk_s[p],
        g.ranks[p],
        g.experts[p, : n[10]],
        g.request_s[p],
        g.beside[p],
        g.tower_s[p],
    )


@_inline
def priced(prices: Any, e: int, decodes: int, context: int, new: Any, before: Any, chunks: int, outputs: int) -> float:
    """Seconds of a scheduler's iteration through all stages."""
    p = prices.of[e]
    seconds = seconds_of(
        prices.kind[p], prices.line[p], _grid(prices, p), decodes, context, new, before, chunks, outputs
    )
    # KINDS of `cost.in_service`: decodes, both, prompts.
    kind = 0 if chunks == 0 else (1 if decodes else 2)
    return seconds * prices.service[p, kind, min(decodes, prices.service.shape[2] - 1)]


@_inline
def through(prices: Any, e: int, free: Any, stages: int, seconds: float, outputs: int, now: float) -> float:
    """An iteration goes through the stages: when it ends."""
    if stages == 1:  # a group decides when its first stage is free
        free[0] = now + seconds
        return free[0]
    p = prices.of[e]
    early = late = seconds / stages
    if prices.split[p] != EVENLY:
        late = seconds
        if prices.split[p] == PART:
            head = prices.grid.head[p, min(outputs, prices.size[p, 1] - 1)]
            late = (seconds - head) * prices.share[p] + head
        early = (seconds - late) / (stages - 1)
    end = now
    for stage in range(stages):
        end = max(end, free[stage]) + (late if stage == stages - 1 else early)
        free[stage] = end
    return end
