"""Routers over engines that come and go, in numbers: by what they recognise requests, and what they draw from."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from ...world import World
from ..contents import contents, roots
from ..fleet.routing import KINDS, PREFIX_AFFINITY, SESSION_AFFINITY, Routing, router_name
from .routers import DRAWS_OF_ONE, RANDOM
from .tables import USED, Ledger

__all__ = ["Drawn", "routing_of"]


class Drawn:
    """What routers draw, 32 bits at a time, as far as it is needed.

    Parameters
    ----------
    kinds : tuple of World
        A world for each router.
    """

    def __init__(self, kinds: tuple[World, ...]) -> None:
        # Copies: if the reference takes over, they begin anew.
        self.streams: list[Any] = [getattr(copy.deepcopy(kind.router), "rng", None) for kind in kinds]

    def wider(self, d: Ledger) -> Any:
        """The table with room for what the next events may need; see `loop`, which returns where there is none."""
        need = int(d.routed[:, USED].max()) + DRAWS_OF_ONE * (len(d.trip) + 1) + 64
        there = d.drawn.shape[1]
        if need <= there:
            return d.drawn
        wide = np.zeros((len(self.streams), 2 * need), dtype=np.uint32)
        wide[:, :there] = d.drawn
        for row, rng in zip(wide, self.streams, strict=True):
            if rng is not None:
                row[there:] = rng.integers(2**32, size=2 * need - there, dtype=np.uint32)
        return wide


def routing_of(world: World, before: int) -> Routing:
    """The router in numbers: as `fleet.routing` has it, but that how many engines there are is not known beforehand.

    `before`: records of other requests that stand before those that it routes.
    """
    trace, n, name = world.trace, len(world.trace), router_name(world.router)
    assert name is not None
    kind = RANDOM if name == "random" else KINDS[name]
    begin, keys, block = np.zeros(n + 1, dtype=np.int64), np.zeros(0, dtype=np.int64), 0
    if kind == PREFIX_AFFINITY and trace.prefix_ids is not None:
        block = 512  # as the router's own default
        given = contents(trace, block)
        # Behind those of the prompt a request's own, for tokens that become part of it.
        count = (trace.prompt_tokens + trace.output_tokens) // block
        begin[1:] = np.cumsum(count)
        row = np.repeat(np.arange(n), count)
        k = np.arange(len(row)) - begin[row]
        shared = k < given.shared[row]
        keys = given.own[row] + k
        row, k = row[shared], k[shared]
        keys[shared] = given.nodes[given.begin[row] + k // given.per] * given.per + k % given.per
    elif kind in (SESSION_AFFINITY, PREFIX_AFFINITY) and trace.after is not None and trace.dialogue:
        begin, keys = np.arange(n + 1), roots(trace.after)
    begin = np.concatenate((np.zeros(before, dtype=np.int64), begin))
    home = np.full(int(keys.max(initial=0)) + 1, -1, dtype=np.int64)
    nothing = np.zeros((2, 1), dtype=np.int64)
    return Routing(int(kind), nothing, begin, keys, home, block, nothing[0])
