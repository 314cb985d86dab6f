"""Routers over the engines that serve now, compiled; see `policy.router` for what each one does."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....jit import inner
from ..fleet.blocks import found_prefix
from ..fleet.routers import far_apart, least
from ..fleet.routing import (
    ASSIGNED,
    LEAST_OUTSTANDING,
    POWER_OF_TWO,
    PREFIX_AWARE,
    SESSION_AFFINITY,
    Routing,
)  # fmt: skip
from ..fleet.tables import FleetRules, Tables
from ..rules import BARE, CALL
from .tables import SENT, UP, USED, Ledger

__all__ = ["DRAWS_OF_ONE", "RANDOM", "below", "choose"]

RANDOM = np.int64(100)
"""The router that draws: how many engines there are to draw from is known only when it does."""

DRAWS_OF_ONE = 2
"""Numbers that routing one request takes at most, but for one in four billion that is drawn again."""

_inline: Any = inner(**BARE)


@inner(**CALL)
def below(drawn: Any, routed: Any, n: int) -> Any:
    """An integer in [0, n) from a stream of 32 random bits, as `numpy.random.Generator.integers` draws it.

    Lemire's method (2019), which numpy uses for ranges of less than 2^32.
    """
    if n == 1:
        return 0
    wide, low = np.uint64(n), np.uint64(0xFFFFFFFF)
    least = (low + np.uint64(1) - wide) % wide
    while True:
        product = np.uint64(drawn[routed[USED]]) * wide
        routed[USED] += 1
        if (product & low) >= least:
            return np.int64(product >> np.uint64(32))


@_inline
def _most_cached(x: FleetRules, s: Tables, up: Any, r: int) -> int:
    """The engine that holds most of the prompt, of several the least loaded; -1 if loads are far apart."""
    if far_apart(s, up):
        return -1
    best, most = up[1], -1
    for i in range(1, up[0] + 1):
        e, found = up[i], 0
        if x.caching:
            found, _ = found_prefix(x, s, e, r, (s.request[r].prompt - 1) // x.size)
        if found > most or (found == most and s.engine[e].outstanding < s.engine[best].outstanding):
            best, most = e, found
    return best


@_inline
def _known(s: Tables, d: Ledger, route: Routing, up: Any, r: int) -> int:
    """The engine that last saw the longest known beginning of a request, if that is worth it and it serves; else the
    least loaded."""
    begin, end = route.begin[r], route.begin[r + 1]
    if route.block:  # tokens that were kept of an earlier try have lengthened the prompt
        end = min(end, begin + s.request[r].prompt // route.block)
    chosen = -1
    for i in range(end - 1, begin - 1, -1):
        seen = route.home[route.keys[i]]
        if seen >= 0:
            m = d.member[seen]
            if m.state == UP and (route.block == 0 or 2 * (i - begin + 1) * route.block >= s.request[r].prompt):
                chosen = m.slot
            break
    if chosen < 0:
        chosen = least(s, up, LEAST_OUTSTANDING)
    for i in range(begin, end):
        route.home[route.keys[i]] = d.number[chosen]
    return chosen


@_inline
def choose(x: FleetRules, s: Tables, d: Ledger, route: Routing, role: int, r: int) -> int:
    """The row of the engine of a request, of those of a role that serve; there is one."""
    kind, up, drawn, routed = route.kind, d.up[role], d.drawn[role], d.routed[role]
    sent = routed[SENT]
    routed[SENT] += 1
    if kind == ASSIGNED:
        return up[1 + sent % up[0]]
    if kind == RANDOM:
        return up[1 + below(drawn, routed, up[0])]
    if kind == POWER_OF_TWO:
        first = below(drawn, routed, up[0])
        if up[0] == 1:
            return up[1]
        second = (first + 1 + below(drawn, routed, up[0] - 1)) % up[0]
        one, other = up[1 + first], up[1 + second]
        return other if s.engine[other].outstanding < s.engine[one].outstanding else one
    if kind >= SESSION_AFFINITY:
        return _known(s, d, route, up, r)
    chosen = _most_cached(x, s, up, r) if kind == PREFIX_AWARE else -1
    return least(s, up, LEAST_OUTSTANDING if kind == PREFIX_AWARE else kind) if chosen < 0 else chosen
