"""Routers: which engine gets a request, among engines that all serve the same model.

All take the first of several equal engines (``min`` does), as `ROUTERS` says; the compiled fleet does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from ....errors import InputError
from .request import LLMRequest

__all__ = ["ROUTERS", "EngineLoad", "Router", "router_named"]


class EngineLoad(Protocol):
    """What a router may look at: the engines that take requests, as they are when a request arrives."""

    @property
    def index(self) -> int:
        """Number of the engine."""
        ...

    @property
    def outstanding(self) -> int:
        """Requests that were sent to the engine and are not finished."""
        ...

    @property
    def outstanding_tokens(self) -> int:
        """Prompt tokens of these."""
        ...

    @property
    def running(self) -> int:
        """Requests that hold device memory."""
        ...

    @property
    def waiting(self) -> int:
        """Requests that wait for it."""
        ...

    @property
    def kv_use(self) -> float:
        """Share of the KV memory that is held, after the engine's last decision."""
        ...

    def cached_tokens(self, request: LLMRequest) -> int:
        """Prompt tokens of a request that the engine's prefix cache holds now."""
        ...


class Router(Protocol):
    """Chooses an engine for each request as it arrives."""

    def __call__(self, request: LLMRequest, engines: Sequence[EngineLoad]) -> int:
        """Index of the engine."""
        ...


class _RoundRobin:
    def __init__(self) -> None:
        self.next = 0

    def __call__(self, request: LLMRequest, engines: Sequence[EngineLoad]) -> int:
        self.next += 1
        return (self.next - 1) % len(engines)


def _least_outstanding(request: LLMRequest, engines: Sequence[EngineLoad]) -> int:
    return min(range(len(engines)), key=lambda i: engines[i].outstanding)


def _least_tokens(request: LLMRequest, engines: Sequence[EngineLoad]) -> int:
    return min(range(len(engines)), key=lambda i: engines[i].outstanding_tokens)


def _least_kv(request: LLMRequest, engines: Sequence[EngineLoad]) -> int:
    return min(range(len(engines)), key=lambda i: (engines[i].kv_use, engines[i].outstanding))


def _vllm_dp(request: LLMRequest, engines: Sequence[EngineLoad]) -> int:
    """vLLM's balance among data-parallel engines: a request that waits counts as four that run.

    The weight is vLLM's own (``waiting * 4 + running`` in its ``DPLBAsyncMPClient``).
    """
    return min(range(len(engines)), key=lambda i: 4 * engines[i].waiting + engines[i].running)


def _place_of(index: int, engines: Sequence[EngineLoad]) -> int | None:
    return next((i for i, engine in enumerate(engines) if engine.index == index), None)


class _PowerOfTwo:
    """The one with fewer requests of two engines that are drawn (Mitzenmacher); the first drawn if both are equal."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def __call__(self, request: LLMRequest, engines: Sequence[EngineLoad]) -> int:
        first = int(self.rng.integers(len(engines)))
        if len(engines) == 1:
            return first
        # Drawn among the others: two equal draws would make it a random router now and then.
        second = (first + 1 + int(self.rng.integers(len(engines) - 1))) % len(engines)
        return second if engines[second].outstanding < engines[first].outstanding else first


class _SessionAffinity:
    """All turns of a conversation to one engine, the least loaded at its first turn; again if that one is gone."""

    def __init__(self) -> None:
        self.home: dict[object, int] = {}

    def __call__(self, request: LLMRequest, engines: Sequence[EngineLoad]) -> int:
        known = None if request.text is None else self.home.get(request.text)
        chosen = None if known is None else _place_of(known, engines)
        if chosen is None:
            chosen = _least_outstanding(request, engines)
        if request.text is not None:
            self.home[request.text] = engines[chosen].index
        return chosen


def _prefix_aware(request: LLMRequest, engines: Sequence[EngineLoad]) -> int:
    """The engine whose cache holds most of the prompt, of several the least loaded; unless loads are far apart.

    Far apart: the longest queue is above the shortest by more than 32 requests and by more than 10 %; then the least
    loaded engine. (The rule is SGLang's router's. Its defaults were 32 and 0.01 % at first and are 64 and 50 % now; the
    10 % is a guess between them.)
    """
    loads = [engine.outstanding for engine in engines]
    if max(loads) - min(loads) > 32 and max(loads) > 1.1 * min(loads):
        return _least_outstanding(request, engines)
    return min(range(len(engines)), key=lambda i: (-engines[i].cached_tokens(request), loads[i]))


class _Random:
    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def __call__(self, request: LLMRequest, engines: Sequence[EngineLoad]) -> int:
        return int(self.rng.integers(len(engines)))


class _PrefixAffinity:
    """The engine that last saw a request's longest prefix, if that is half of the prompt; else the least loaded.

    Prefixes are looked at in steps of `block` tokens. One that everybody shares (a system prompt) is short against the
    prompts, so it does not draw all requests to one engine.
    """

    def __init__(self, block: int = 512) -> None:  # Mooncake's hash blocks
        self.block = block
        self.seen: dict[object, int] = {}

    def __call__(self, request: LLMRequest, engines: Sequence[EngineLoad]) -> int:
        keys = self._keys(request)
        known = next((i for i in reversed(range(len(keys))) if keys[i] in self.seen), -1)
        if known >= 0 and (request.tokens is None or 2 * (known + 1) * self.block >= request.prompt):
            chosen = _place_of(self.seen[keys[known]], engines)
        else:
            chosen = None
        if chosen is None:
            chosen = _least_outstanding(request, engines)
        for key in keys:
            self.seen[key] = engines[chosen].index
        return chosen

    def _keys(self, request: LLMRequest) -> list[object]:
        if request.tokens is None:
            return [] if request.text is None else [("text", request.text, request.keys)]
        keys: list[object] = []
        for low in range(0, request.prompt - self.block + 1, self.block):
            keys.append(hash((keys[-1] if keys else request.keys, request.tokens[low : low + self.block])))
        return keys


ROUTERS: dict[str, Callable[[np.random.Generator], Router]] = {
    "round_robin": lambda rng: _RoundRobin(),
    "least_outstanding": lambda rng: _least_outstanding,
    "least_tokens": lambda rng: _least_tokens,
    "random": _Random,
    "least_kv": lambda rng: _least_kv,
    "vllm_dp": lambda rng: _vllm_dp,
    "power_of_two": _PowerOfTwo,
    "prefix_affinity": lambda rng: _PrefixAffinity(),
    "prefix_aware": lambda rng: _prefix_aware,
    "session_affinity": lambda rng: _SessionAffinity(),
}
"""Name -> maker of a fresh router; ties go to the engine of the lowest number."""


def router_named(name: str, rng: np.random.Generator) -> Router:
    """A fresh router.

    Raises
    ------
    InputError
        On an unknown name.
    """
    if name not in ROUTERS:
        raise InputError(f"router: unknown router {name!r}; expected one of {', '.join(ROUTERS)}")
    return ROUTERS[name](rng)
