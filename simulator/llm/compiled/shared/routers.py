"""Routers of several models, compiled: which of its model's schedulers gets the request that arrives now.

See `policy.router` for what each one does; the schedulers of a model need not be alike.
"""

from __future__ import annotations

from typing import Any

from .....jit import inner
from ..fleet.blocks import found_prefix
from ..fleet.routing import (
    ASSIGNED,
    LEAST_KV,
    LEAST_OUTSTANDING,
    LEAST_TOKENS,
    POWER_OF_TWO,
    PREFIX_AWARE,
    SESSION_AFFINITY,
    VLLM_DP,
)
from ..fleet.tables import Tables
from ..rules import BARE
from .tables import Ways

__all__ = ["choose"]

_inline: Any = inner(**BARE)


@_inline
def _load(rules: Any, s: Tables, kind: int, e: int) -> float:
    """The load of a scheduler, for routers that compare a single number."""
    g = s.engine[e]
    if kind == LEAST_TOKENS:
        return float(g.tokens)
    if kind == VLLM_DP:
        return float(4 * g.waiting + g.running)  # vLLM's weight; see `router`
    if kind == LEAST_KV:
        return g.used / (rules[e].pool * rules[e].size) if g.outstanding else 0.0
    return float(g.outstanding)


@_inline
def _least(rules: Any, s: Tables, kind: int, low: int, high: int) -> int:
    """The lowest load, of several the first; by KV memory in use, then by requests."""
    best, least = low, _load(rules, s, kind, low)
    for e in range(low + 1, high):
        mine = _load(rules, s, kind, e)
        if mine < least or (  # strictly: the lowest number wins a tie
            kind == LEAST_KV and mine == least and s.engine[e].outstanding < s.engine[best].outstanding
        ):
            best, least = e, mine
    return best


@_inline
def _most_cached(rules: Any, s: Tables, r: int, low: int, high: int) -> int:
    """The one that holds most of the prompt, of several the least loaded; -1 if loads are far apart."""
    lightest = heaviest = s.engine[low].outstanding
    for e in range(low + 1, high):
        load = s.engine[e].outstanding
        lightest, heaviest = min(lightest, load), max(heaviest, load)
    if heaviest - lightest > 32 and heaviest > 1.1 * lightest:  # the thresholds of `router._prefix_aware`
        return -1
    best, most = low, -1
    for e in range(low, high):
        found = 0
        if rules[e].caching:
            found, _ = found_prefix(rules[e], s, e, r, (s.request[r].prompt - 1) // rules[e].size)
            found *= rules[e].size
        if found > most or (found == most and s.engine[e].outstanding < s.engine[best].outstanding):
            best, most = e, found
    return best


@_inline
def _known(s: Tables, w: Ways, m: int, r: int) -> int:
    """The one that last saw the longest known beginning of a request, if that is worth it; -1 else."""
    begin = w.known[r]
    for k in range(w.known[r + 1] - 1, begin - 1, -1):
        seen = w.home[w.keys[k]]
        if seen >= 0:
            if w.block[m] == 0 or 2 * (k - begin + 1) * w.block[m] >= s.request[r].prompt:
                return seen
            return -1
    return -1


@_inline
def choose(rules: Any, s: Tables, w: Ways, m: int, low: int, high: int, r: int) -> int:
    """The scheduler of a request of model `m`, one from `low` to before `high`."""
    kind, sent = w.kind[m], w.sent[m]
    w.sent[m] += 1
    if kind == ASSIGNED:
        return low + w.drawn[0, w.begin[m] + sent % (w.begin[m + 1] - w.begin[m])]
    if kind == POWER_OF_TWO:
        first, second = low + w.drawn[0, w.begin[m] + sent], low + w.drawn[1, w.begin[m] + sent]
        return second if s.engine[second].outstanding < s.engine[first].outstanding else first
    chosen = -1
    if kind == PREFIX_AWARE:
        chosen = _most_cached(rules, s, r, low, high)
    elif kind >= SESSION_AFFINITY:
        chosen = _known(s, w, m, r)
    if chosen < 0:
        chosen = _least(rules, s, LEAST_OUTSTANDING if kind >= PREFIX_AWARE else kind, low, high)
    if kind >= SESSION_AFFINITY:
        for k in range(w.known[r], w.known[r + 1]):
            w.home[w.keys[k]] = chosen
    return chosen
