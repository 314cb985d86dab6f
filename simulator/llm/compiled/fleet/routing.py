"""Inputs of a compiled router that are computed beforehand: random draws, and keys by which it recognises requests."""

from __future__ import annotations

import copy
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from .....seeds import generator
from ...policy.router import ROUTERS
from ...world import World
from ..contents import Contents, contents, roots

__all__ = [
    "ASSIGNED", "LEAST_KV", "LEAST_OUTSTANDING", "LEAST_TOKENS", "POWER_OF_TWO", "PREFIX_AFFINITY", "PREFIX_AWARE",
    "SESSION_AFFINITY", "VLLM_DP", "Routing", "router_name", "routing",
]  # fmt: skip

# numpy's numbers: numba compiles a function once more for each literal that it is given.
ASSIGNED, LEAST_OUTSTANDING, LEAST_TOKENS, LEAST_KV, VLLM_DP, POWER_OF_TWO, PREFIX_AWARE = map(np.int64, range(7))
SESSION_AFFINITY, PREFIX_AFFINITY = map(np.int64, (7, 8))
KINDS = {
    "round_robin": ASSIGNED,
    "random": ASSIGNED,
    "least_outstanding": LEAST_OUTSTANDING,
    "least_tokens": LEAST_TOKENS,
    "least_kv": LEAST_KV,
    "vllm_dp": VLLM_DP,
    "power_of_two": POWER_OF_TWO,
    "prefix_aware": PREFIX_AWARE,
    "session_affinity": SESSION_AFFINITY,
    "prefix_affinity": PREFIX_AFFINITY,
}
"""Routers that are compiled, and their kinds."""


class Routing(NamedTuple):
    """A router in numbers."""

    kind: int
    drawn: Any  # (2, requests): engines by order of arrival; of POWER_OF_TWO the two that are drawn
    begin: Any  # (n + 1,): where each request's keys begin
    keys: Any  # by what a request is known again, the longest part of it last
    home: Any  # by key: the engine that saw it last; -1: none
    block: int  # tokens of a key; 0: a key stands for all of the prompt
    up: Any  # engines, where they stay the same: see `routers`


def router_name(router: Any) -> str | None:
    """The name of a router that is compiled; None of another."""
    for name in KINDS:
        made = ROUTERS[name](generator(0)) if name in ROUTERS else None
        if made is not None and (router is made or (not isinstance(made, FunctionType) and type(router) is type(made))):
            return name
    return None


def routing(world: World) -> Routing:
    """The router of a world, which must be one that is compiled, in numbers."""
    trace, n, engines = world.trace, len(world.trace), world.engines
    name = "round_robin" if engines == 1 else router_name(world.router)
    assert name is not None
    kind, drawn = KINDS[name], np.zeros((2, 1), dtype=np.int64)
    if name == "round_robin":
        drawn = np.tile(np.arange(engines), (2, 1))
    elif kind == ASSIGNED:
        router: Any = copy.deepcopy(world.router)  # if the reference takes over, it begins anew
        drawn = np.array([[router(None, range(engines)) for _ in range(n)]], dtype=np.int64)
    elif kind == POWER_OF_TWO:
        rng: np.random.Generator = copy.deepcopy(world.router).rng  # type: ignore[attr-defined]
        pairs = [(int(rng.integers(engines)), int(rng.integers(engines - 1))) for _ in range(n)]
        drawn = np.array([(a, (a + 1 + b) % engines) for a, b in pairs], dtype=np.int64).T.copy()
    begin, keys, block = np.zeros(n + 1, dtype=np.int64), np.zeros(0, dtype=np.int64), 0
    if kind == PREFIX_AFFINITY and trace.prefix_ids is not None:
        block = 512  # as the router's own default
        given = contents(trace, block)
        begin[1:] = np.cumsum(given.shared)
        row = np.repeat(np.arange(n), given.shared)
        keys = _shared(given, row, np.arange(len(row)) - begin[row])
    elif kind >= SESSION_AFFINITY and trace.after is not None and trace.dialogue:
        begin, keys = np.arange(n + 1), roots(trace.after)
    home = np.full(int(keys.max(initial=0)) + 1, -1, dtype=np.int64)
    return Routing(int(kind), drawn, begin, keys, home, block, np.array([engines, *range(engines)]))


def _shared(given: Contents, row: Any, k: Any) -> Any:
    """Contents of the k-th blocks of some rows' prompts."""
    return given.nodes[given.begin[row] + k // given.per] * given.per + k % given.per
