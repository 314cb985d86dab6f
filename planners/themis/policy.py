"""`Themis`: the arbiter's policy, round by round (Themis §3.3.2, §4.2): visibility, filter, auction, leftovers."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ...errors import InputError
from ...simulator.sharing.agent import AppView
from ...simulator.sharing.cluster import SharedCluster
from ...simulator.sharing.policy import grants
from .auction import Rounding, auction
from .bidding import bid_of, current_rho
from .bids import Bid

__all__ = ["Themis"]


@dataclass
class Themis:
    """Finish-time fair sharing by partial-allocation auctions.

    Parameters
    ----------
    fairness : float
        f: the worst 1 − f of the apps by ρ, at least one, take part in an auction.
    payments : bool
        Whether winners pay.
    rounding : {"floor", "nearest"}
        Of what they keep.
    visibility : {"cached", "current"}
        Which ρ apps are sorted by: what the table of the last auction that they bid in says of the GPUs that they have
        (so that it does not pay to lie here, Theorem 3.3), or what they say now.
    seed : int
        Of who gets leftovers.

    Raises
    ------
    InputError
        If f is outside [0, 1].
    """

    fairness: float = 0.8
    payments: bool = True
    rounding: Rounding = "floor"
    visibility: Literal["cached", "current"] = "cached"
    seed: int = 0
    name: str = "themis"
    preempts: bool = True
    auctions: int = field(default=0, init=False)
    _tables: dict[int, Bid] = field(default_factory=dict[int, Bid], init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 <= self.fairness <= 1:
            raise InputError(f"Themis.fairness: f is the share of apps that stay out, in [0, 1] (got {self.fairness})")

    def assign(self, cluster: SharedCluster, offered: Sequence[int], apps: Sequence[AppView]) -> Mapping[int, int]:
        """See `simulator.sharing.Policy.assign`."""
        self.auctions += 1
        wanting = [v for v in apps if v.wanted > 0]
        ranked = sorted(wanting, key=lambda v: (-self._visible(cluster, v), -self._waiting(v), v.index))
        n = max(1, math.ceil((1 - self.fairness) * len(apps) - 1e-9))
        inside, outside = ranked[:n], ranked[n:]
        bids = [bid_of(cluster, offered, v) for v in inside]
        self._tables.update((b.app, b) for b in bids)
        before = {v.index: v.lapsed for v in inside}
        outcome = auction(cluster, offered, bids, before=before, payments=self.payments, rounding=self.rounding)
        given = {g: app for app, gpus in outcome.gpus.items() for g in gpus}
        pool = set(outcome.leftover)
        # The paper says "at random" and not what if nobody stayed out: then those who took part, the worst first.
        for view in (*sorted(outside, key=self._lot), *inside):
            more = sum(1 for app in given.values() if app == view.index)
            mine = grants(cluster, pool, view, max(0, view.wanted - more))
            given.update(dict.fromkeys(mine, view.index))
            pool.difference_update(mine)
        return given

    def _visible(self, cluster: SharedCluster, view: AppView) -> float:
        if self.visibility == "cached" and view.index in self._tables:
            n = len(view.held) + len(view.lapsed)
            said = [row.rho for row in self._tables[view.index].rows if row.gpus <= n]
            return min(said) if n else math.inf
        return current_rho(cluster, view)

    @staticmethod
    def _waiting(view: AppView) -> float:
        """Of apps that do not run, who has waited longest for its size: ρ is unbounded for all of them."""
        return (view.now_s - view.app.arrival_s) / view.ideal_s

    def _lot(self, view: AppView) -> tuple[bytes, int]:
        """A lot drawn for an app in an auction: the same in every process and engine."""
        return hashlib.sha256(f"{self.seed}/{self.auctions}/{view.index}".encode()).digest(), view.index
