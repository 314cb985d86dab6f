"""Themis: finish-time fairness by partial-allocation auctions of leased GPUs (Mahajan et al., NSDI '20).

Begin with `policy` (`Themis`), which plays one round: rank the apps, collect bids (`bidding`, `bids`), hold an auction
(`auction`), and hand out what is left. `allocation` finds the proportionally fair allocation that an auction rests on,
and `whereabouts` turns it into GPUs by number. `properties` and `lying` check what the paper proves. `compiled` and the
room `kernels` do the same in compiled code, for long simulations.
"""

from __future__ import annotations

from .allocation import Allocation, Market, proportionally_fair
from .auction import Had, Outcome, auction
from .bidding import bid_of, current_rho
from .bids import Bid, Place, Row
from .lying import Lie, lying_cluster, lying_experiment, lying_world, tipping_point
from .policy import Themis
from .properties import Properties, properties

__all__ = [
    "Allocation", "Bid", "Had", "Lie", "Market", "Outcome", "Place", "Properties", "Row", "Themis", "auction", "bid_of",
    "current_rho", "lying_cluster", "lying_experiment", "lying_world", "properties", "proportionally_fair",
    "tipping_point",
]  # fmt: skip
