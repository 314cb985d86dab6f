"""Alpa's intra-operator pass: sharding specs, parallel algorithms, the ILP (§4)."""

from __future__ import annotations

from .algorithms import Algorithm, Communication, collectives_of, derive, follow
from .analysis import Analysis
from .intervals import IntervalTable, interval_costs
from .options import IntraOptions
from .plan import IntraPlan, PlannedCollective
from .reshard import Resharding, Step, reshard
from .solve import Choice, score, solve_stage
from .specs import ShardingSpec, all_specs

__all__ = [
    "Algorithm", "Analysis", "Choice", "Communication", "IntervalTable", "IntraOptions", "IntraPlan",
    "PlannedCollective", "Resharding", "ShardingSpec", "Step", "all_specs", "collectives_of", "derive", "follow",
    "interval_costs", "reshard", "score", "solve_stage",
]  # fmt: skip
