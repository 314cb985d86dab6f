"""Which engine gets a request: routers over engines that all serve the same model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from ...errors import InputError
from .request import LLMRequest

__all__ = ["ROUTERS", "EngineLoad", "Router", "router_named"]


class EngineLoad(Protocol):
    """What a router may look at."""

    @property
    def outstanding(self) -> int:
        """Requests that were sent to the engine and are not finished."""
        ...

    @property
    def outstanding_tokens(self) -> int:
        """Prompt tokens of these."""
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

    def __init__(self, block: int = 512) -> None:
        self.block = block
        self.seen: dict[object, int] = {}

    def __call__(self, request: LLMRequest, engines: Sequence[EngineLoad]) -> int:
        keys = self._keys(request)
        known = next((i for i in reversed(range(len(keys))) if keys[i] in self.seen), -1)
        if known >= 0 and (request.tokens is None or 2 * (known + 1) * self.block >= request.prompt):
            chosen = self.seen[keys[known]]
        else:
            chosen = _least_outstanding(request, engines)
        for key in keys:
            self.seen[key] = chosen
        return chosen

    def _keys(self, request: LLMRequest) -> list[object]:
        if request.tokens is None:
            return [] if request.text is None else [("text", request.text)]
        keys: list[object] = []
        for low in range(0, request.prompt - self.block + 1, self.block):
            keys.append(hash((keys[-1] if keys else None, request.tokens[low : low + self.block])))
        return keys


ROUTERS: dict[str, Callable[[np.random.Generator], Router]] = {
    "round_robin": lambda rng: _RoundRobin(),
    "least_outstanding": lambda rng: _least_outstanding,
    "least_tokens": lambda rng: _least_tokens,
    "random": _Random,
    "prefix_affinity": lambda rng: _PrefixAffinity(),
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
