"""Pools in the terms of the compiled loop: a kind of engines for each role, and two halves of each request."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .....seeds import generator
from ...fleet.options import Fleet
from ...policy.router import router_named
from ...world import World
from ..fleet.run import rules_of
from ..fleet.tables import FleetRules, Tables
from .tables import DESK, Handoff

__all__ = ["both_halves", "handoff_of", "kinds_of"]


def kinds_of(
    world: World, fleet: Fleet, until: float | None
) -> tuple[tuple[World, ...], tuple[int, ...], tuple[FleetRules, ...]]:
    """For each role a world as its engines see it, how many there are at first, and their options in numbers."""
    pools, kinds, counts = fleet.pools, (world,), (world.engines,)
    if pools is not None:
        assert fleet.decode_cost is not None
        router = router_named(pools.decode_router, generator(fleet.seed, "llm", "decode router"))
        decode = replace(world, config=fleet.decode_config, cost=fleet.decode_cost, router=router)
        kinds, counts = (world, decode), (pools.prefill, pools.decode)
    return kinds, counts, tuple(rules_of(kind, until) for kind in kinds)


def both_halves(first: Tables, second: Tables) -> Tables:
    """Tables of two halves of each request: behind those that begin stand those that go on elsewhere."""
    n = len(first.request)
    begins, goes_on = first.request.copy(), second.request.copy()
    begins["target"] = begins["prompt"] + 1
    goes_on["table"] += len(first.table)
    cached = first if first.block.shape[1] > 1 else second  # the other one may know no contents
    counts = np.zeros((4, 2 * n), dtype=np.int64)
    counts[2] = -1
    wide = {
        name: max(getattr(first, name), getattr(second, name), key=lambda table: table.size)
        for name in ("block", "bucket", "looked", "final", "owe", "todo", "chosen", "new", "old")
    }
    return first._replace(
        request=np.concatenate((begins, goes_on)),
        table=np.concatenate((first.table, second.table)),
        nodes=cached.nodes,
        per=cached.per,
        counts=counts,
        times=np.full((3, 2 * n), np.nan),
        **wide,
    )


def handoff_of(fleet: Fleet, n: int, rows: int) -> Handoff:
    """The options of pools in numbers, and tables in which nothing was sent."""
    pools = fleet.pools
    assert pools is not None
    desk: Any = np.zeros(rows, dtype=DESK)
    for name in ("first", "last", "landed", "final"):
        desk[name] = -1
    return Handoff(
        buffered=pools.handoff == "buffer",
        by_sender=pools.serialise in ("both", "sender"),
        by_receiver=pools.serialise in ("both", "receiver"),
        layers=pools.overlap_layers,
        token_bytes=int(fleet.token_bytes),
        bandwidth=float(pools.link.bandwidth_bytes_per_s),
        latency=float(pools.link.latency_s),
        desk=desk,
        sender=np.full(n, -1, dtype=np.int64),
        receiver=np.full(n, -1, dtype=np.int64),
        time=np.full((2, n), np.nan),
        size=np.zeros(n, dtype=np.int64),
    )
