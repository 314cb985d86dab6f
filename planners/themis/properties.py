"""`properties`: does an auction's result have the properties of fair sharing (Themis §3.1, §3.3)?

These are sharing incentive, Pareto efficiency and envy-freeness. An app's own bid says what GPUs are worth to it: the
least ρ among the rows that they contain. Everything is judged by what apps say, as in the paper's theorems. Whether
telling the truth pays is another question (see `lying`).
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
"""ρ of an app that does not run, where it must be finite and yet above every real ρ."""


@dataclass(frozen=True, repr=False)
class Properties(Shown):
    """The properties of an auction's result.

    Parameters
    ----------
    rho : mapping of int to float
        ρ of each app with what it gets.
    sharing_incentive : tuple of int
        Apps with ρ ≤ 1, which do no worse than alone on 1/N of the cluster.
    pareto : bool
        Whether the proportionally fair allocation, before payments, is Pareto efficient: no other gives one app more
        without giving another less.
    pareto_after_payments : bool
        Whether the final allocation is Pareto efficient too. Payments that stay idle may break it.
    envy : tuple of (int, int)
        Pairs (who, whom): the first app would rather have what the second was given before payments.
    envy_after_payments : tuple of (int, int)
        Pairs by the same rule, judged by what apps keep after payments.
    shares : bool
        Whether 0 < c_i ≤ 1 for every app.
    """

    rho: Mapping[int, float]
    sharing_incentive: tuple[int, ...]
    pareto: bool
    pareto_after_payments: bool
    envy: tuple[tuple[int, int], ...]
    envy_after_payments: tuple[tuple[int, int], ...]
    shares: bool


def worth(cluster: SharedCluster, bid: Bid, gpus: Sequence[int]) -> float:
    """The ρ of some GPUs by an app's bid: the least ρ of the rows that fit into them."""
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
    """Check an auction's result against the bids that led to it."""
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
    """The GPUs of the proportionally fair allocation, before payments."""
    from .whereabouts import whereabouts

    return whereabouts(cluster, offered, outcome.allocation, {}, {})


def _undominated(cluster: SharedCluster, offered: Sequence[int], bids: Sequence[Bid], rho: Mapping[int, float]) -> bool:
    """Whether no allocation gives every app at most this ρ, and one of them less.

    The same search decides it, on bids without the rows that would make their app worse: then the best product must be
    no better than this one. An app that does not run counts as `BAD`, so that it can gain. A row that was left out
    counts as not running, so that no app is given up for another.
    """
    allowed: list[Bid] = []
    for bid in bids:
        most = min(rho[bid.app], BAD)
        nothing = min(bid.empty_rho, BAD)
        rows = (r for r in bid.rows if r.gpus and r.rho <= most)
        allowed.append(Bid(bid.app, (Row(0, nothing if nothing <= most else math.inf), *rows)))
    best = Market(cluster, tuple(offered), tuple(allowed)).best()
    ours = sum(log_worth(min(r, BAD)) for r in rho.values())
    # a few grains: sums with BAD are coarse
    return sum(log_worth(row.rho) for row in best.rows.values()) <= ours + 1e-9


def _envies(
    cluster: SharedCluster, bids: Sequence[Bid], given: Mapping[int, tuple[int, ...]]
) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for bid in bids:
        own = worth(cluster, bid, given.get(bid.app, ()))
        found += [(bid.app, o) for o, gpus in given.items() if o != bid.app and worth(cluster, bid, gpus) < own]
    return tuple(found)
