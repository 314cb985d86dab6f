"""`Level`: what joins nodes beyond their network adapters: racks, rails, pods, and what they can carry."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
import math
from dataclasses import dataclass
from itertools import pairwise

from ..errors import InputError
from ..reprs import Shown

__all__ = ["Level", "check_levels"]


@dataclass(frozen=True, slots=True, repr=False)
class Level(Shown):
    """A level of a cluster's network: groups of nodes, and the uplinks by which each group is joined to the others.

    Parameters
    ----------
    nodes : int
        Nodes of a group. The last group may have fewer.
    oversubscription : float
        What all adapters of a group can send together, over what its uplinks carry; 1: a full fat tree.
    latency_s : float, optional
        Fixed cost of a message that leaves a group, seconds; by default that of the adapters' link.
    rails : bool
        Whether the k-th adapters of a group's nodes have a switch of their own (a rail), each with its share of the
        uplinks. What goes from one rail to another takes the uplinks, too, even inside a group. Only of the lowest
        level.

    Raises
    ------
    InputError
        On a number of nodes below one, an oversubscription below one, or a latency below zero.
    """

    nodes: int
    oversubscription: float = 1.0
    latency_s: float | None = None
    rails: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.nodes, bool) or not isinstance(self.nodes, int) or self.nodes < 1:
            raise InputError(f"Level.nodes: expected a positive integer (got {self.nodes!r})")
        if not (math.isfinite(self.oversubscription) and self.oversubscription >= 1.0):
            raise InputError(f"Level.oversubscription: expected a number >= 1 (got {self.oversubscription!r})")
        if self.latency_s is not None and not (math.isfinite(self.latency_s) and self.latency_s >= 0.0):
            raise InputError(f"Level.latency_s: expected seconds >= 0 (got {self.latency_s!r})")


def check_levels(levels: object) -> tuple[Level, ...]:
    """The levels of a cluster, from the inside out, as a tuple.

    Raises
    ------
    InputError
        If something is no level, a group holds no whole number of the groups below it, or rails are not the lowest.
    """
    if not isinstance(levels, tuple | list) or not all(isinstance(x, Level) for x in levels):  # pyright: ignore[reportUnknownVariableType]
        raise InputError(f"Cluster.levels: expected levels, from the inside out (got {levels!r})")
    found: tuple[Level, ...] = tuple(levels)  # pyright: ignore[reportUnknownArgumentType]
    for below, above in pairwise(found):
        if above.nodes <= below.nodes or above.nodes % below.nodes:
            raise InputError(
                f"Cluster.levels: groups of {above.nodes} nodes hold no whole groups of {below.nodes}; give levels "
                "from the inside out"
            )
        if above.rails:
            raise InputError("Cluster.levels: rails: only the lowest level has them")
    return found
