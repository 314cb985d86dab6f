"""What is predicted of this machine, and measured on it while the command runs: a small comparison of each world."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType

from ..line import Line
from ..machine import Machine

__all__ = ["MEASURED", "Tell", "measured"]

Tell = Callable[[str], None]

MEASURED: Mapping[str, str] = MappingProxyType(
    {world: f"{__name__}.{world}" for world in ("serving", "llm", "training", "sharing")}
)
"""World -> module whose ``lines(machine, seed, tell)`` runs the comparison."""


def measured(world: str, machine: Machine, seed: int, tell: Tell) -> tuple[Line, ...]:
    """Run one world's comparison.

    Raises
    ------
    MeshwrightError
        If something breaks while it runs.
    """
    return import_module(MEASURED[world]).lines(machine, seed, tell)
