"""Alpa's intra-operator pass (§4): how the operators of one stage are sharded over its logical mesh.

Begin with `solve` (`solve_stage`). `algorithms` derives the parallel algorithms of an operator, `pricing` their seconds
and bytes, `stage_model` and `problem` the ILP of a stage, and `plan` the result (`IntraPlan`). The room `sharding`
holds sharding specs and resharding; the room `runs` solves every run of layers at once.
"""

from __future__ import annotations

from .algorithms import Algorithm, Communication, collectives_of, derive, follow
from .analysis import Analysis
from .options import IntraOptions
from .plan import IntraPlan, PlannedCollective
from .runs.intervals import IntervalTable, interval_costs
from .sharding.reshard import Resharding, Step, reshard
from .sharding.specs import ShardingSpec, all_specs
from .solve import Choice, score, solve_stage

__all__ = [
    "Algorithm", "Analysis", "Choice", "Communication", "IntervalTable", "IntraOptions", "IntraPlan",
    "PlannedCollective", "Resharding", "ShardingSpec", "Step", "all_specs", "collectives_of", "derive", "follow",
    "interval_costs", "reshard", "score", "solve_stage",
]  # fmt: skip
