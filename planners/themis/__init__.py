"""Themis: partial-allocation auctions of leased GPUs (Mahajan et al., NSDI '20)."""

from __future__ import annotations

from .allocation import Allocation, Market, proportionally_fair
from .auction import Outcome, auction
from .bidding import bid_of, current_rho
from .bids import Bid, Place, Row
from .policy import Themis

__all__ = [
    "Allocation", "Bid", "Market", "Outcome", "Place", "Row", "Themis", "auction", "bid_of", "current_rho",
    "proportionally_fair",
]  # fmt: skip
