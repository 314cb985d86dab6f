"""What others measured and published, beside what is predicted of it: a module for each world.

`megatron`, `later`, `fresh` and `parallel` hold published training runs with their sources; other measurements stand
with the figures of their papers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType

from ..line import Line

__all__ = ["PUBLISHED", "Tell", "computed"]

Tell = Callable[[str], None]

PUBLISHED: Mapping[str, str] = MappingProxyType(
    {world: f"{__name__}.{world}" for world in ("serving", "llm", "training", "sharing")}
)
"""World -> module whose ``lines(seed, tell)`` computes the predictions."""


def computed(world: str, seed: int, tell: Tell) -> tuple[Line, ...]:
    """Predict what one world's published measurements were. The same seed gives the same lines."""
    return import_module(PUBLISHED[world]).lines(seed, tell)
