"""`Bid`: an app's table of allocations and the ρ of each (Themis §3.3.1, §4.3).

The paper lists every subset of the GPUs on offer. An app can tell fewer allocations apart: how many GPUs there are, how
many of them share a machine, and whether they are in one rack or beside those that it keeps. Each row describes one
such kind, and stands for all subsets of that kind.
"""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from numbers import Integral, Real
from typing import Any

from ...errors import InputError
from ...reprs import Shown
from ...simulator.sharing.cluster import SharedCluster

__all__ = ["GRAIN", "STARVED", "Bid", "Place", "Row", "check_offered", "log_worth"]

STARVED = -1e4
"""log 1/ρ of an app that does not run. It is so low that no gain of the others makes up for it; so the most apps run
first, and the product decides among those. The paper's product would be 0 in all these cases."""

GRAIN = 2.0**34
"""log 1/ρ is rounded to multiples of 1/GRAIN (6e-11). Their sums are exact in float64, so allocations of equal worth
compare as equal in whatever order they were added up, and both engines break ties alike."""


def log_worth(rho: float) -> float:
    """log 1/ρ, rounded to multiples of 1 / `GRAIN`; `STARVED` if ρ is infinite."""
    return round(-math.log(rho) * GRAIN) / GRAIN if rho < math.inf else STARVED


class Place(IntEnum):
    """Where the GPUs of a row must be."""

    ANYWHERE = 0
    MACHINES = 1  # `group` at a time on a machine
    RACK = 2  # all in a rack


@dataclass(frozen=True, slots=True, repr=False)
class Row(Shown):
    """One line of a bid.

    Parameters
    ----------
    gpus : int
        Number of GPUs, on top of those that the app keeps; 0: none.
    rho : float
        The app's ρ if it holds them until it is done; infinite if it could not run with them.
    place : Place
        Where they must be.
    group : int
        With `Place.MACHINES`: they come in groups of this size, each on one machine; the last may be smaller.
    region : int
        The one machine or rack where all of them must be; −1: any.
    """

    gpus: int
    rho: float
    place: Place = Place.ANYWHERE
    group: int = 0
    region: int = -1


@dataclass(frozen=True, repr=False)
class Bid(Shown):
    """The bid of one app.

    Parameters
    ----------
    app : int
        Number of the app.
    rows : sequence of Row
        Allocations and their ρ; one of them must be the row of no GPUs.

    Raises
    ------
    InputError
        If a ρ is NaN or not positive, a number of GPUs is negative or not whole, a place is unknown, a row has a group
        without `Place.MACHINES`, or the row of no GPUs is missing.
    """

    app: int
    rows: tuple[Row, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple(self.rows))
        for k, row in enumerate(self.rows):
            where = f"bid of app {self.app}: row {k}"
            if not isinstance(row.rho, Real) or not row.rho > 0:
                raise InputError(f"{where}: rho: expected a positive number or infinity (got {row.rho!r})")
            if not _whole(row.gpus) or row.gpus < 0:
                raise InputError(f"{where}: gpus: expected an integer >= 0 (got {row.gpus!r})")
            if not isinstance(row.place, Place):
                raise InputError(f"{where}: place: expected a Place (got {row.place!r})")
            if not (_whole(row.group) and _whole(row.region) and row.region >= -1):
                raise InputError(f"{where}: group, region: expected integers (got {row.group!r}, {row.region!r})")
            if row.place != Place.MACHINES and row.group:
                raise InputError(f"{where}: group: only with Place.MACHINES (got {row.group} with {row.place.name})")
            if row.place == Place.MACHINES and row.gpus and not 1 <= row.group <= row.gpus:
                raise InputError(f"{where}: group: expected 1 … {row.gpus} GPUs on a machine (got {row.group})")
            if row.region >= 0 and (row.place == Place.ANYWHERE or row.group not in (0, row.gpus)):
                raise InputError(f"{where}: region: only of one machine or one rack (got {row})")
        if not any(row.gpus == 0 for row in self.rows):
            raise InputError(f"bid of app {self.app}: missing the empty allocation: add a row of 0 GPUs with its rho")

    @property
    def empty_rho(self) -> float:
        """ρ if the app gets nothing of what is on offer."""
        return min(row.rho for row in self.rows if row.gpus == 0)

    @property
    def least(self) -> int:
        """The fewest further GPUs with which the app runs; 0 if it runs with those that it keeps."""
        return min((row.gpus for row in self.rows if row.rho < math.inf), default=0)

    def undominated(self) -> tuple[Row, ...]:
        """Rows that an optimal allocation may use, best first.

        A row is left out if another is worth as much, takes no more GPUs, and is at least as easy to place.
        """
        kept: list[Row] = []
        # Of rows worth the same, the one with fewer GPUs and the looser place comes first, so that it beats the others.
        for row in sorted(self.rows, key=lambda r: (-log_worth(r.rho), r.gpus, r.place, r.group)):
            if not any(_as_easy(other, row) for other in kept):
                kept.append(row)
        return tuple(kept)


def _as_easy(a: Row, b: Row) -> bool:
    """Whether `a` fits wherever `b` fits. The test is sufficient, not necessary: keeping a row too many costs only
    time."""
    if a.gpus > b.gpus:
        return False
    if a.gpus == 0 or a.place == Place.ANYWHERE:
        return True
    if a.place == Place.RACK:
        return (b.place == Place.RACK and a.region in (-1, b.region)) or (
            b.place == Place.MACHINES and b.group >= a.gpus and a.region < 0
        )
    if b.place != Place.MACHINES or (a.region >= 0 and a.region != b.region):
        return False
    # groups of `a` must fit into groups of `b`: each whole group of b holds floor(b.group/a.group) of them
    whole, rest = divmod(b.gpus, b.group)
    held = whole * (b.group // a.group) + rest // a.group
    groups, last = divmod(a.gpus, a.group)
    return held >= groups + (1 if last else 0)


def _whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_offered(cluster: SharedCluster, offered: Sequence[int]) -> None:
    """Check that the GPUs on offer exist, and that each is named once.

    Raises
    ------
    InputError
        If one is not.
    """
    seen: set[int] = set()
    for gpu in offered:
        if not _whole(gpu) or not 0 <= gpu < cluster.n_gpus:
            raise InputError(f"offered: expected GPUs 0 … {cluster.n_gpus - 1} (got {gpu!r})")
        if gpu in seen:
            raise InputError(f"offered: GPU {gpu} stands twice; offer each once")
        seen.add(gpu)


def check_bids(bids: Sequence[Bid]) -> None:
    """Check that no app bids twice.

    Raises
    ------
    InputError
        If one does.
    """
    seen: set[int] = set()
    for bid in bids:
        if bid.app in seen:
            raise InputError(f"bids: app {bid.app} bids twice; one bid for each app")
        seen.add(bid.app)
