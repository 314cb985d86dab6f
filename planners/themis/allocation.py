"""`proportionally_fair`: the disjoint allocation that maximises the product of 1/ρ, exactly (Themis §3.3.1, line 6).

`Market` holds the GPUs on offer and the bids, and can also solve without each app, which the payments need.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...reprs import Shown
from ...simulator.sharing.cluster import SharedCluster
from .bids import Bid, Place, Row, check_bids, log_worth

if TYPE_CHECKING:
    from ...simulator.sharing.compiled.record import Record

__all__ = ["Allocation", "Market", "Others", "proportionally_fair"]

Ints = npt.NDArray[np.int64]

STATES = 1 << 16
"""Slots for states that the search has seen, 1.5 MB. A power of two, since slots are taken by a mask; the number is a
guess, and too few only cost time."""
STEPS = 2_000_000
"""Steps after which a search stops: some seconds. A guess at what a caller will wait for; the answer then carries a
gap."""


@dataclass(frozen=True, repr=False)
class Allocation(Shown):
    """An allocation: which row of its bid each app gets.

    Parameters
    ----------
    rows : mapping of int to Row
        App -> the row of its bid.
    items : mapping of int to tuple of (int, int)
        App -> (machine or rack, GPUs) of each group; () if they may be anywhere.
    value : float
        Σ log 1/ρ over the apps that run.
    running : int
        Number of apps that run, which have ρ < ∞.
    gap : float
        How much higher Σ log 1/ρ of a better allocation could be; 0 if this one is proven optimal.
    steps : int
        Steps that the search took.
    """

    rows: Mapping[int, Row]
    items: Mapping[int, tuple[tuple[int, int], ...]]
    value: float
    running: int
    gap: float
    steps: int

    def logs(self) -> dict[int, float]:
        """log 1/ρ of each app; `STARVED` if it does not run."""
        return {app: log_worth(row.rho) for app, row in self.rows.items()}


class Others(NamedTuple):
    """The best allocation if one app did not take part.

    Parameters
    ----------
    logs : mapping of int to float
        log 1/ρ of each other app; `STARVED` if it does not run.
    gap : float
        How much higher Σ log 1/ρ of a better allocation could be.
    """

    logs: Mapping[int, float]
    gap: float


class _Prepared(NamedTuple):
    order: Ints
    goods: Record  # Goods
    price: npt.NDArray[np.float64]
    seen: tuple[npt.NDArray[np.uint64], npt.NDArray[np.float64], Ints]
    number: Ints


@dataclass(frozen=True, repr=False)
class Market(Shown):
    """Free GPUs and the bids for them, laid out as arrays for the search.

    Parameters
    ----------
    cluster : SharedCluster
        The cluster.
    offered : tuple of int
        GPUs on offer.
    bids : tuple of Bid
        One bid for each app.

    Raises
    ------
    InputError
        If an app bids twice, or a bid names a machine or rack that the cluster does not have.
    """

    cluster: SharedCluster
    offered: tuple[int, ...]
    bids: tuple[Bid, ...]

    def __post_init__(self) -> None:
        check_bids(self.bids)
        racks = 1 + max(m.rack for m in self.cluster.machines)
        for bid in self.bids:
            for row in bid.rows:
                top = racks if row.place == Place.RACK else len(self.cluster.machines)
                if row.region >= top:
                    what = "racks" if row.place == Place.RACK else "machines"
                    raise InputError(f"bid of app {bid.app}: region: there are {top} {what} (got {row.region})")

    @cached_property
    def tables(self) -> tuple[tuple[tuple[Row, ...], ...], dict[str, npt.NDArray[np.int64]], npt.NDArray[np.float64]]:
        """The rows of each bid that an optimal allocation may use, their columns as arrays, and log 1/ρ of each."""
        free = np.bincount(self.cluster.machine_of[list(self.offered)], minlength=len(self.cluster.machines))
        position = np.empty(len(self.order), dtype=np.int64)
        position[self.order] = np.arange(len(self.order))
        total, largest = int(free.sum()), int(free.max(initial=0))
        rows: list[tuple[Row, ...]] = []
        for bid in self.bids:
            fits = [
                r for r in bid.undominated() if r.gpus <= total and (r.place != Place.MACHINES or r.group <= largest)
            ]
            rows.append(tuple(fits))
        flat = [r for mine in rows for r in mine]
        columns = {
            "start": np.cumsum([0, *(len(mine) for mine in rows)]),
            "gpus": np.array([r.gpus for r in flat]),
            "place": np.array([int(r.place) for r in flat]),
            "group": np.array([r.group for r in flat]),
            "region": np.array(
                [position[r.region] if r.place == Place.MACHINES and r.region >= 0 else r.region for r in flat]
            ),
            "free": free[self.order],
        }
        return (
            tuple(rows),
            {k: v.astype(np.int64) for k, v in columns.items()},
            np.array([log_worth(r.rho) for r in flat]),
        )

    @cached_property
    def order(self) -> npt.NDArray[np.int64]:
        """Machines rack by rack; within a rack those with the fewest free GPUs come first, so that small groups go
        there and large free machines stay whole."""
        free = np.bincount(self.cluster.machine_of[list(self.offered)], minlength=len(self.cluster.machines))
        return np.lexsort(np.array([free, [m.rack for m in self.cluster.machines]]))

    @cached_property
    def _prepared(self) -> _Prepared:
        """The inputs of the search that are the same for all its runs on this market."""
        from ...simulator.sharing.compiled.record import Record
        from .kernels.bounds import Goods
        from .kernels.prices import price_count

        _, columns, value = self.tables
        racks = np.array([self.cluster.machines[m].rack for m in self.order], dtype=np.int64)
        rack_free = np.bincount(racks, weights=columns["free"]).astype(np.int64)
        goods = Goods(
            columns["start"], columns["gpus"], columns["place"], columns["group"], columns["region"], value,
            columns["free"], racks, rack_free,
        )  # fmt: skip
        seen = (np.zeros(STATES, dtype=np.uint64), np.zeros(STATES), np.zeros(STATES, dtype=np.int64))
        price, number = np.zeros(price_count(goods)), np.zeros(1, dtype=np.int64)
        # Branch and bound: the apps that gain the most choose first. A worse row costs them the most, so their other
        # branches soon fall below the bound.
        first = sorted(range(len(self.bids)), key=lambda a: (-value[columns["start"][a]], a))
        return _Prepared(np.array(first, dtype=np.int64), Record(goods), price, seen, number)

    def best(self, without: int | None = None, *, known: Allocation | None = None, steps: int = STEPS) -> Allocation:
        """The proportionally fair allocation of all bids, or of all bids but one app's.

        Parameters
        ----------
        without : int, optional
            An app that does not take part.
        known : Allocation, optional
            An allocation of all bids. What the others have in it is returned unless something better is found.
        steps : int
            The search stops after so many steps; `gap` of the result bounds what it may have missed.
        """
        from .kernels.allocation import NOTHING, allocate

        p = self._prepared
        order = np.array([a for a in p.order.tolist() if self.bids[a].app != without], dtype=np.int64)
        others = {app: row for app, row in known.rows.items() if app != without} if known is not None else None
        at_least = sum(log_worth(row.rho) for row in others.values()) if others is not None else NOTHING
        found, top, taken, chosen, places, _, _ = allocate(
            order, p.goods, p.price, float(at_least), steps, *p.seen, p.number, False
        )
        gap = max(0.0, float(top) - float(found))
        if known is not None and others is not None and (not chosen.size or chosen[0] < 0):  # nothing is better
            return self._answer(others, {app: known.items[app] for app in others}, gap, int(taken))
        return self._allocation(order, chosen, places, gap, int(taken))

    def with_and_without(self, steps: int = STEPS) -> tuple[Allocation, dict[int, Others]]:
        """The best allocation of all apps; and for each app that it gives GPUs, the best allocation of the others.

        Parameters
        ----------
        steps : int
            Each search stops after so many steps.
        """
        from .kernels.allocation import NOTHING, allocate

        p = self._prepared
        found, top, taken, chosen, places, rows, gaps = allocate(
            p.order, p.goods, p.price, NOTHING, steps, *p.seen, p.number, True
        )
        allocation = self._allocation(p.order, chosen, places, max(0.0, float(top) - float(found)), int(taken))
        others: dict[int, Others] = {}
        for i, (app, row) in enumerate(allocation.rows.items()):
            if row.gpus:
                better = rows[i].max(initial=-1) >= 0
                instead = self._picked(np.delete(p.order, i), np.delete(rows[i], i)) if better else allocation.rows
                logs = {other: log_worth(r.rho) for other, r in instead.items() if other != app}
                others[app] = Others(logs, float(gaps[i]))
        return allocation, others

    def _allocation(self, order: Ints, chosen: Ints, places: Ints, gap: float, steps: int) -> Allocation:
        rows = self._picked(order, chosen)
        items = {app: self._items(row, at) for (app, row), at in zip(rows.items(), places, strict=True)}
        return self._answer(rows, items, gap, steps)

    def _picked(self, order: Ints, chosen: Ints) -> dict[int, Row]:
        rows, columns, _ = self.tables
        start = columns["start"]
        return {
            self.bids[a].app: rows[a][o - int(start[a])] for a, o in zip(order.tolist(), chosen.tolist(), strict=True)
        }

    @staticmethod
    def _answer(
        rows: Mapping[int, Row], items: Mapping[int, tuple[tuple[int, int], ...]], gap: float, steps: int
    ) -> Allocation:
        running = [log_worth(row.rho) for row in rows.values() if row.rho < math.inf]
        return Allocation(rows, items, sum(running), len(running), gap, steps)

    def _items(self, row: Row, places: npt.NDArray[np.int64]) -> tuple[tuple[int, int], ...]:
        if row.gpus == 0 or row.place == Place.ANYWHERE:
            return ()
        if row.place == Place.RACK:
            return ((int(places[0]), row.gpus),)
        sizes = [min(row.group, row.gpus - at) for at in range(0, row.gpus, row.group)]
        return tuple((int(self.order[p]), size) for p, size in zip(places.tolist(), sizes, strict=False))


def proportionally_fair(cluster: SharedCluster, offered: Sequence[int], bids: Sequence[Bid]) -> Allocation:
    """The disjoint allocation with the largest product of 1/ρ, among those in which the most apps run.

    Raises
    ------
    InputError
        If bids contradict the cluster or each other.
    """
    return Market(cluster, tuple(offered), tuple(bids)).best()
