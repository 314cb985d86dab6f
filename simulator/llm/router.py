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
    """The engine that saw the longest of a request's prefixes (in steps of `block` tokens); else the least loaded."""

    def __init__(self, block: int = 512) -> None:
        self.block = block
        self.seen: dict[object, int] = {}

    def __call__(self, request: LLMRequest, engines: Sequence[EngineLoad]) -> int:
        keys = self._keys(request)
        known = next((self.seen[key] for key in reversed(keys) if key in self.seen), None)
        chosen = _least_outstanding(request, engines) if known is None else known
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
