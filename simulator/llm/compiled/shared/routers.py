"""Routers of several models, compiled: which of its model's schedulers gets the request that arrives now.

See `policy.router` for what each one does; the schedulers of a model need not be alike.
"""

from __future__ import annotations

from typing import Any

from .....jit import inner
from ..fleet.blocks import found_prefix
from ..fleet.routers import far_apart, least
from ..fleet.routing import (
    ASSIGNED,
    LEAST_OUTSTANDING,
    POWER_OF_TWO,
    PREFIX_AWARE,
    SESSION_AFFINITY,
)
from ..fleet.tables import Tables
from ..rules import BARE
from .tables import Ways

__all__ = ["choose"]

_inline: Any = inner(**BARE)


@_inline
def _most_cached(rules: Any, s: Tables, up: Any, r: int) -> int:
    """The one that holds most of the prompt, of several the least loaded; -1 if loads are far apart."""
    if far_apart(s, up):
        return -1
    best, most = up[1], -1
    for i in range(1, up[0] + 1):
        e, found = up[i], 0
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
def choose(rules: Any, s: Tables, w: Ways, m: int, r: int) -> int:
    """The scheduler of a request of model `m`."""
    kind, sent, up = w.kind[m], w.sent[m], w.up[m]
    low = up[1]
    w.sent[m] += 1
    if kind == ASSIGNED:
        return low + w.drawn[0, w.begin[m] + sent % (w.begin[m + 1] - w.begin[m])]
    if kind == POWER_OF_TWO:
        first, second = low + w.drawn[0, w.begin[m] + sent], low + w.drawn[1, w.begin[m] + sent]
        return second if s.engine[second].outstanding < s.engine[first].outstanding else first
    chosen = -1
    if kind == PREFIX_AWARE:
        chosen = _most_cached(rules, s, up, r)
    elif kind >= SESSION_AFFINITY:
        chosen = _known(s, w, m, r)
    if chosen < 0:
        chosen = least(s, up, LEAST_OUTSTANDING if kind >= PREFIX_AWARE else kind)
    if kind >= SESSION_AFFINITY:
        for k in range(w.known[r], w.known[r + 1]):
            w.home[w.keys[k]] = chosen
    return chosen
