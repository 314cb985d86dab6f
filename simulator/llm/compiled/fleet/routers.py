"""Routers compiled: which engine gets the request that arrives now; see `router` for what each one does.

Of engines among which a router chooses, `up` has the number, then each one's row, in the order in which they win ties.
"""

from __future__ import annotations

from typing import Any

from .....jit import inner
from ..rules import BARE, CALL
from .blocks import found_prefix
from .routing import (
    ASSIGNED,
    LEAST_KV,
    LEAST_OUTSTANDING,
    LEAST_TOKENS,
    POWER_OF_TWO,
    PREFIX_AWARE,
    SESSION_AFFINITY,
    VLLM_DP,
    Routing,
)  # fmt: skip
from .tables import FleetRules, Tables

__all__ = ["choose", "far_apart", "least"]

_inline: Any = inner(**BARE)


@_inline
def _load(g: Any, kind: int) -> float:
    """The load of an engine, for routers that compare a single number."""
    if kind == LEAST_TOKENS:
        return float(g.tokens)
    if kind == VLLM_DP:
        return float(4 * g.waiting + g.running)  # vLLM's weight; see `router`
    if kind == LEAST_KV:
        return g.used / g.slots if g.outstanding else 0.0
    return float(g.outstanding)


@inner(**CALL)
def _least(engine: Any, up: Any, kind: int) -> int:
    best = up[1]
    low = _load(engine[best], kind)
    for i in range(2, up[0] + 1):
        load = _load(engine[up[i]], kind)
        if load < low or (  # strictly: the first wins a tie
            kind == LEAST_KV and load == low and engine[up[i]].outstanding < engine[best].outstanding
        ):
            best, low = up[i], load
    return best


@_inline
def least(s: Tables, up: Any, kind: int) -> int:
    """The engine of the lowest load, of several the first; by KV memory in use, then by requests."""
    return _least(s.engine, up, kind)


@_inline
def far_apart(s: Tables, up: Any) -> bool:
    """Whether engines have so many requests more than others that a cached prefix is not worth the wait."""
    low = high = s.engine[up[1]].outstanding
    for i in range(2, up[0] + 1):
        load = s.engine[up[i]].outstanding
        low, high = min(low, load), max(high, load)
    return high - low > 32 and high > 1.1 * low  # the thresholds of `router._prefix_aware`


@_inline
def _most_cached(x: FleetRules, s: Tables, up: Any, r: int) -> int:
    """The engine that holds most of the prompt, of several the least loaded; -1 if loads are far apart."""
    if far_apart(s, up):
        return -1
    best, most = 0, -1
    for e in range(len(s.engine)):
        found = 0
        if x.caching:
            found, _ = found_prefix(x, s, e, r, (s.request[r].prompt - 1) // x.size)
        if found > most or (found == most and s.engine[e].outstanding < s.engine[best].outstanding):
            best, most = e, found
    return best


@_inline
def _known(s: Tables, route: Routing, r: int) -> int:
    """The engine that last saw the longest known beginning of a request, if that is worth it; else the least loaded."""
    begin, end = route.begin[r], route.begin[r + 1]
    chosen = -1
    for k in range(end - 1, begin - 1, -1):
        seen = route.home[route.keys[k]]
        if seen >= 0:
            if route.block == 0 or 2 * (k - begin + 1) * route.block >= s.request[r].prompt:
                chosen = seen
            break
    if chosen < 0:
        chosen = least(s, route.up, LEAST_OUTSTANDING)
    for k in range(begin, end):
        route.home[route.keys[k]] = chosen
    return chosen


@inner(**CALL)
def choose(x: FleetRules, s: Tables, route: Routing, r: int) -> int:
    """The engine of a request; `Tables.tally` counts those that were sent before it."""
    kind, sent = route.kind, s.tally[2]
    if kind == ASSIGNED:
        return route.drawn[0, sent % route.drawn.shape[1]]
    if kind == POWER_OF_TWO:
        first, second = route.drawn[0, sent], route.drawn[1, sent]
        return second if s.engine[second].outstanding < s.engine[first].outstanding else first
    if kind >= SESSION_AFFINITY:
        return _known(s, route, r)
    chosen = _most_cached(x, s, route.up, r) if kind == PREFIX_AWARE else -1
    return least(s, route.up, LEAST_OUTSTANDING if kind == PREFIX_AWARE else kind) if chosen < 0 else chosen
