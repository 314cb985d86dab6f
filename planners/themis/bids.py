"""`Bid`: what an app says that GPUs on offer are worth to it (Themis §3.3.1, §4.3): a table of allocations and ρ.

The paper lists every subset of the GPUs. What an app can tell apart is fewer: how many there are, how many at a time
are on a machine, and whether they stand in a rack, or beside those that it keeps. A row says that, and stands for all
subsets of its kind.
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
"""log 1/ρ of an app that could not run: so low that no products make up for one app more that runs (the paper's
product would be 0 whatever the others get)."""

GRAIN = 2.0**34
"""log 1/ρ is counted in steps of 1/GRAIN (6e-11): sums of it are exact, so that allocations that are worth as much
compare as equal whichever way they were added up, in every engine."""


def log_worth(rho: float) -> float:
    """log 1/ρ, in whole steps."""
    return round(-math.log(rho) * GRAIN) / GRAIN if rho < math.inf else STARVED


class Place(IntEnum):
    """Where the GPUs of a row may be."""

    ANYWHERE = 0
    MACHINES = 1  # `group` at a time on a machine
    RACK = 2  # all in a rack


@dataclass(frozen=True, slots=True, repr=False)
class Row(Shown):
    """One line of a bid.

    Parameters
    ----------
    gpus : int
        How many GPUs, beside those that the app keeps; 0: none.
    rho : float
        Its ρ if it has them until it is done; infinite where it could not run.
    place : Place
        Where they may be.
    group : int
        With `Place.MACHINES`, how many of them at a time are on a machine; the last group may be smaller.
    region : int
        The machine (all of them) or rack that it must be; −1: any.
    """

    gpus: int
    rho: float
    place: Place = Place.ANYWHERE
    group: int = 0
    region: int = -1


@dataclass(frozen=True, repr=False)
class Bid(Shown):
    """What one app offers.

    Parameters
    ----------
    app : int
        Its number.
    rows : sequence of Row
        Allocations and their ρ, with one of no GPUs.

    Raises
    ------
    InputError
        If a ρ is NaN or not positive, a number of GPUs negative or not whole, a place unknown, a group asked for of
        GPUs that are not on machines, or the row of no GPUs is missing.
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
        """ρ without anything on offer."""
        return min(row.rho for row in self.rows if row.gpus == 0)

    @property
    def least(self) -> int:
        """GPUs beside those that it keeps without which it does not run; 0 if it runs with those."""
        return min((row.gpus for row in self.rows if row.rho < math.inf), default=0)

    def undominated(self) -> tuple[Row, ...]:
        """Rows that some optimal allocation may use, best first: no other has at most its GPUs, asks no more of where
        they are, and is worth as much."""
        kept: list[Row] = []
        for row in sorted(self.rows, key=lambda r: (-log_worth(r.rho), r.gpus, r.place, r.group)):
            if not any(_as_easy(other, row) for other in kept):
                kept.append(row)
        return tuple(kept)


def _as_easy(a: Row, b: Row) -> bool:
    """Whether wherever `b` fits `a` does too (a sufficient test)."""
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
    """GPUs on offer are the cluster's, each once.

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
    """No app bids twice.

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
