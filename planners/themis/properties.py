"""Whether an auction's answer is what sharing asks for (Themis §3.1, §3.3): each app's incentive, Pareto, envy.

An app values GPUs by its own bid: the least ρ of a row that they contain. All is by what apps say, which is what the
paper's theorems are about; that saying the truth pays is another question, see `lying`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...reprs import Shown
from ...simulator.sharing.cluster import SharedCluster
from .allocation import Market
from .auction import Outcome
from .bids import Bid, Place, Row, log_worth

__all__ = ["Properties", "properties", "worth"]

BAD = 1e30
"""ρ of an app that does not run, where something must be above every other ρ and yet finite."""


@dataclass(frozen=True, repr=False)
class Properties(Shown):
    """What holds of an answer.

    Parameters
    ----------
    rho : mapping of int to float
        ρ of each app with what it gets.
    sharing_incentive : tuple of int
        Apps with ρ ≤ 1: that do no worse than alone on 1/N of the cluster.
    pareto : bool
        Whether the proportionally fair allocation, before payments, is Pareto efficient: none gives an app more
        without giving another less.
    pareto_after_payments : bool
        Whether what is handed out is, among allocations of all GPUs on offer: payments that lie idle may break it.
    envy : tuple of (int, int)
        (who, whom) of apps that would rather have what another was given before payments.
    envy_after_payments : tuple of (int, int)
        The same of what they keep.
    shares : bool
        Whether 0 < c_i ≤ 1 of every app.
    """

    rho: Mapping[int, float]
    sharing_incentive: tuple[int, ...]
    pareto: bool
    pareto_after_payments: bool
    envy: tuple[tuple[int, int], ...]
    envy_after_payments: tuple[tuple[int, int], ...]
    shares: bool


def worth(cluster: SharedCluster, bid: Bid, gpus: Sequence[int]) -> float:
    """ρ that a bid says of some GPUs: the least of the rows that fit into them."""
    on = Counter(cluster.machine_of[list(gpus)].tolist()) if gpus else Counter[int]()
    in_rack = Counter(cluster.rack_of[list(gpus)].tolist()) if gpus else Counter[int]()
    return min(row.rho for row in bid.rows if _fits(row, len(gpus), on, in_rack))


def _fits(row: Row, n: int, on: Mapping[int, int], in_rack: Mapping[int, int]) -> bool:
    if row.gpus > n:
        return False
    if row.gpus == 0 or row.place == Place.ANYWHERE:
        return True
    if row.place == Place.RACK:
        return max(in_rack.values() if row.region < 0 else (in_rack.get(row.region, 0),)) >= row.gpus
    if row.region >= 0:
        return on.get(row.region, 0) >= row.gpus
    whole, rest = divmod(row.gpus, row.group)
    places = sum(count // row.group for count in on.values())
    if places > whole or not rest:
        return places >= whole
    return places == whole and any(count % row.group >= rest for count in on.values())


def properties(cluster: SharedCluster, offered: Sequence[int], bids: Sequence[Bid], outcome: Outcome) -> Properties:
    """Check an auction's answer against the bids that it came from."""
    full = _before_payments(cluster, offered, outcome)
    rho = {b.app: worth(cluster, b, outcome.gpus.get(b.app, ())) for b in bids}
    fair = {b.app: outcome.allocation.rows[b.app].rho for b in bids}
    return Properties(
        rho,
        tuple(app for app, r in rho.items() if r <= 1),
        _undominated(cluster, offered, bids, fair),
        _undominated(cluster, offered, bids, rho),
        _envies(cluster, bids, full),
        _envies(cluster, bids, outcome.gpus),
        all(0 < c <= 1 for c in outcome.share.values()),
    )


def _before_payments(cluster: SharedCluster, offered: Sequence[int], outcome: Outcome) -> Mapping[int, tuple[int, ...]]:
    """GPUs of the proportionally fair allocation that an outcome began with."""
    from .whereabouts import whereabouts

    return whereabouts(cluster, offered, outcome.allocation, {}, {})


def _undominated(cluster: SharedCluster, offered: Sequence[int], bids: Sequence[Bid], rho: Mapping[int, float]) -> bool:
    """Whether no allocation gives every app at most this ρ and one of them less.

    The same search is asked, of bids without the rows that would make their app worse: the best product of those is no
    better than this one. An app that cannot run counts as `BAD`, so that it may gain; what is struck out as not
    running, so that nobody is traded for it.
    """
    allowed: list[Bid] = []
    for bid in bids:
        most = min(rho[bid.app], BAD)
        nothing = min(bid.empty_rho, BAD)
        rows = (r for r in bid.rows if r.gpus and r.rho <= most)
        allowed.append(Bid(bid.app, (Row(0, nothing if nothing <= most else math.inf), *rows)))
    best = Market(cluster, tuple(offered), tuple(allowed)).best()
    ours = sum(log_worth(min(r, BAD)) for r in rho.values())
    return sum(log_worth(row.rho) for row in best.rows.values()) <= ours + 1e-9


def _envies(
    cluster: SharedCluster, bids: Sequence[Bid], given: Mapping[int, tuple[int, ...]]
) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for bid in bids:
        own = worth(cluster, bid, given.get(bid.app, ()))
        found += [(bid.app, o) for o, gpus in given.items() if o != bid.app and worth(cluster, bid, gpus) < own]
    return tuple(found)
