"""`Break`: a group that is to lose workers during a real run, and to be started again; made of drawn downtimes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...reprs import Shown
from ...simulator.failures import Downtimes
from ...simulator.placement import Placement

__all__ = ["Break", "Comeback", "breaks_of"]


@dataclass(frozen=True, slots=True, repr=False)
class Break(Shown):
    """Workers of a group are killed, and after the repair the whole group is started again.

    Parameters
    ----------
    group : int
        The group.
    ranks : tuple of int
        Its workers that are killed; the others end with them.
    at_s : float
        When, seconds into the run.
    repaired_s : float
        When the group may start again, seconds into the run; infinite if never. It serves once its weights are there.
    """

    group: int
    ranks: tuple[int, ...]
    at_s: float
    repaired_s: float = math.inf


@dataclass(frozen=True, slots=True, repr=False)
class Comeback(Shown):
    """A group that came back during a run.

    Parameters
    ----------
    group : int
        The group.
    at_s : float
        When it served again, seconds into the run.
    load_s : float
        Seconds since it was started: processes, weights, warm-up.
    """

    group: int
    at_s: float
    load_s: float

    def __str__(self) -> str:
        return f"group {self.group} back at {self.at_s:.2f} s, {self.load_s:.2f} s after its start"


def breaks_of(placement: Placement, downtimes: Downtimes) -> tuple[Break, ...]:
    """What becomes of groups whose devices are away: a group is repaired when all that failed together are back."""
    found: list[Break] = []
    for g, group in enumerate(placement.groups):
        spans = sorted(
            (span.down_s, span.up_s, rank)
            for rank, device in enumerate(group.devices or ())
            for span in downtimes[device]
        )
        mine: list[Break] = []
        for down, up, rank in spans:
            if mine and down <= mine[-1].repaired_s:
                last = mine[-1]
                # It is gone already; only its repair takes longer. Devices that fail at once are killed at once.
                ranks = (*last.ranks, rank) if down == last.at_s else last.ranks
                mine[-1] = Break(g, ranks, last.at_s, max(last.repaired_s, up))
            else:
                mine.append(Break(g, (rank,), down, up))
        found += mine
    return tuple(sorted(found, key=lambda one: (one.at_s, one.group)))
