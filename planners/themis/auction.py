"""`auction`: one partial-allocation auction (Themis §3.3.1, Pseudocode 1): proportional fairness, hidden payments."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ...simulator.sharing.cluster import SharedCluster
from .allocation import Allocation, Market
from .bids import Bid
from .whereabouts import whereabouts

__all__ = ["Outcome", "Rounding", "auction", "kept_share"]

Rounding = Literal["floor", "nearest"]


@dataclass(frozen=True)
class Outcome:
    """What an auction came to.

    Parameters
    ----------
    allocation : Allocation
        The proportionally fair one.
    share : mapping of int to float
        c_i of each app: what it keeps of that, 0 < c_i ≤ 1.
    gpus : mapping of int to tuple of int
        What each app gets.
    leftover : tuple of int
        GPUs on offer that nobody gets: payments, and what nobody bid for.
    gap : float
        The largest gap of any allocation that went into it; 0 where all are proven the best.
    """

    allocation: Allocation
    share: Mapping[int, float]
    gpus: Mapping[int, tuple[int, ...]]
    leftover: tuple[int, ...]
    gap: float


def auction(
    cluster: SharedCluster, offered: Sequence[int], bids: Sequence[Bid], *,
    before: Mapping[int, Sequence[int]] | None = None, payments: bool = True, rounding: Rounding = "floor",
) -> Outcome:  # fmt: skip
    """Auction GPUs.

    Parameters
    ----------
    cluster : SharedCluster
        The cluster.
    offered : sequence of int
        GPUs on offer.
    bids : sequence of Bid
        A table of each app that takes part.
    before : mapping of int to sequence of int, optional
        GPUs on offer that an app has had so far: of allocations that are as good it is given those that it has.
    payments : bool
        Whether apps pay; without, each gets its proportionally fair share.
    rounding : {"floor", "nearest"}
        What c_i of n GPUs are: the paper's c·G is not defined for whole GPUs.

    Raises
    ------
    InputError
        On bids that contradict the cluster or each other.
    """
    market = Market(cluster, tuple(offered), tuple(bids))
    allocation = market.best()
    share, gap = dict.fromkeys(allocation.rows, 1.0), allocation.gap
    winners = [app for app, row in allocation.rows.items() if row.gpus]
    if payments and len(bids) > 1:
        with_all = allocation.logs()
        for app in winners:
            without = market.best(without=app)
            gap = max(gap, without.gap)
            share[app] = kept_share(app, with_all, without.logs())
    given = whereabouts(cluster, offered, allocation, before or {})
    kept: dict[int, tuple[int, ...]] = {}
    for app, gpus in given.items():
        keep = _whole(share[app] * len(gpus), rounding)
        kept[app] = _fewest_dropped(cluster, gpus, keep)
    taken = {g for gpus in kept.values() for g in gpus}
    return Outcome(allocation, share, kept, tuple(g for g in sorted(offered) if g not in taken), gap)


def kept_share(app: int, with_app: Mapping[int, float], without: Mapping[int, float]) -> float:
    """c_i: by what factor the others' product of 1/ρ is smaller because the app is there.

    Others that run in one of the two allocations only would make it 0 or infinite; they are left out, and more than 1
    counts as 1.
    """
    lost = 0.0
    for other, log in without.items():
        if other != app and log > -math.inf and with_app[other] > -math.inf:
            lost += with_app[other] - log
    return min(1.0, math.exp(lost))


def _whole(gpus: float, rounding: Rounding) -> int:
    return math.floor(gpus + 1e-9) if rounding == "floor" else math.floor(gpus + 0.5)


def _fewest_dropped(cluster: SharedCluster, gpus: Sequence[int], keep: int) -> tuple[int, ...]:
    """`keep` of them; those go first that stand on the machine where there are the fewest."""
    mine = list(gpus)
    while len(mine) > keep:
        counts = Counter(cluster.machine_of[mine].tolist())
        machine = min(counts, key=lambda m: (counts[m], -m))
        mine.remove(max(g for g in mine if cluster.machine_of[g] == machine))
    return tuple(sorted(mine))
