"""Themis: partial-allocation auctions of leased GPUs (Mahajan et al., NSDI '20)."""

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
