"""Which of some free GPUs to take: near to each other and to those that are held already (`pick`), or by lot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ....errors import InputError
from ....reprs import Shown
from ..cluster import SharedCluster
from .lots import lot

__all__ = ["PLACEMENTS", "Chooser", "Placement", "pick"]

Placement = Literal["near", "blind"]
"""Which GPUs of the pool an app is given: the nearest, or any."""

PLACEMENTS: tuple[Placement, ...] = ("near", "blind")


@dataclass(repr=False)
class Chooser(Shown):
    """Chooses GPUs for an app. It counts its decisions, since each one draws new lots (random numbers).

    Parameters
    ----------
    placement : {"near", "blind"}
        ``near``: GPUs near to each other and to the app's, see `pick`. ``blind``: random ones (those with the lowest
        lots), as for schedulers that "do not account for placement preferences" (Themis §6.2.1).
    seed : int
        Seed of the lots.

    Raises
    ------
    InputError
        If the word is unknown or the seed no integer >= 0.
    """

    placement: Placement = "near"
    seed: int = 0
    decisions: int = field(default=0, init=False, compare=False)

    def __post_init__(self) -> None:
        if self.placement not in PLACEMENTS:
            raise InputError(f"placement: expected one of {', '.join(PLACEMENTS)} (got {self.placement!r})")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or not 0 <= self.seed < 2**63:
            raise InputError(f"placement: seed: expected an integer in [0, 2**63) (got {self.seed!r})")

    def take(self, cluster: SharedCluster, pool: Collection[int], n: int, near: Sequence[int] = ()) -> tuple[int, ...]:
        """`n` GPUs of the pool, ascending; fewer if there are fewer."""
        if self.placement == "near":
            return pick(cluster, pool, n, near)
        drawn = sorted(pool, key=lambda g: (lot(self.seed, self.decisions, g), g))
        return tuple(sorted(drawn[: max(n, 0)]))


def pick(cluster: SharedCluster, pool: Collection[int], n: int, near: Sequence[int] = ()) -> tuple[int, ...]:
    """`n` GPUs of the pool, as near as they can be had; fewer if there are fewer.

    Beside GPUs that are held: the nearest first (same slot, machine, rack, elsewhere), within a distance from the
    machine with the most in the pool. Alone: from the machine that holds them all with the fewest to spare, else from
    such a rack, else from the racks and machines with the most. Ties go to the lowest number.

    Returns
    -------
    tuple of int
        Ascending.
    """
    if n <= 0 or not pool:
        return ()
    machine, rack = cluster.machine_of, cluster.rack_of
    in_machine = Counter(int(machine[g]) for g in pool)
    in_rack = Counter(int(rack[g]) for g in pool)
    if near:
        held = tuple(near)

        def nearest(g: int) -> tuple[int, int, int, int]:
            distance = min(cluster.level((g, h)) for h in held)
            return distance, -in_machine[int(machine[g])], int(machine[g]), g

        return tuple(sorted(sorted(pool, key=nearest)[:n]))
    for unit, counts in ((machine, in_machine), (rack, in_rack)):
        enough = [(count, u) for u, count in counts.items() if count >= n]
        if enough:
            home = min(enough)[1]  # the tightest fit: larger gaps stay whole for larger jobs
            inside = [g for g in pool if int(unit[g]) == home]
            return _fullest_first(cluster, inside, n, in_machine, in_rack)
    return _fullest_first(cluster, pool, n, in_machine, in_rack)


def _fullest_first(
    cluster: SharedCluster, pool: Collection[int], n: int, in_machine: Counter[int], in_rack: Counter[int]
) -> tuple[int, ...]:
    """From the fullest rack, there from the fullest machine, there from the fullest slot."""
    machine, rack, slot = cluster.machine_of, cluster.rack_of, cluster.slot_of
    in_slot = Counter(int(slot[g]) for g in pool)

    def fullest(g: int) -> tuple[int, ...]:
        r, m, s = int(rack[g]), int(machine[g]), int(slot[g])
        return -in_rack[r], r, -in_machine[m], m, -in_slot[s], s, g

    return tuple(sorted(sorted(pool, key=fullest)[:n]))
