"""Routers compiled: which engine gets the request that arrives now; see `router` for what each one does."""

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

__all__ = ["choose"]

_inline: Any = inner(**BARE)


@_inline
def _load(s: Tables, kind: int, e: int) -> int:
    """The load of an engine, for routers that compare a single number."""
    g = s.engine[e]
    if kind == LEAST_TOKENS:
        return g.tokens
    if kind == VLLM_DP:
        return 4 * g.waiting + g.running  # vLLM's weight; see `router`
    if kind == LEAST_KV:
        return g.used if g.outstanding else 0
    return g.outstanding


@_inline
def _least(s: Tables, kind: int) -> int:
    """The engine of the lowest load, of several the first; by KV memory in use, then by requests."""
    best = 0
    for e in range(1, len(s.engine)):
        mine, least = _load(s, kind, e), _load(s, kind, best)
        if mine < least or (  # strictly: the lowest number wins a tie
            kind == LEAST_KV and mine == least and s.engine[e].outstanding < s.engine[best].outstanding
        ):
            best = e
    return best


@_inline
def _most_cached(x: FleetRules, s: Tables, r: int) -> int:
    """The engine that holds most of the prompt, of several the least loaded; -1 if loads are far apart."""
    lowest = highest = s.engine[0].outstanding
    for e in range(1, len(s.engine)):
        load = s.engine[e].outstanding
        lowest, highest = min(lowest, load), max(highest, load)
    if highest - lowest > 32 and highest > 1.1 * lowest:  # the thresholds of `router._prefix_aware`
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
        chosen = _least(s, LEAST_OUTSTANDING)
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
    chosen = _most_cached(x, s, r) if kind == PREFIX_AWARE else -1
    return _least(s, LEAST_OUTSTANDING if kind == PREFIX_AWARE else kind) if chosen < 0 else chosen
