"""The planners that come with Meshwright, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...simulator.serving.plan.file import Plan
from .. import alpaserve
from ..alpaserve.baselines import dedicated, greedy_no_partition, round_robin, selective_replication
from ..alpaserve.clockwork import ScheduledPlan, clockwork_pp

__all__ = ["PLANNERS"]

PLANNERS: dict[str, Callable[..., Plan | ScheduledPlan]] = {
    "alpaserve": alpaserve.plan,
    "alpaserve-local-search": partial(alpaserve.plan, local_search_iterations=2000),
    "selective-replication": selective_replication,
    "clockwork++": clockwork_pp,
    "round-robin": round_robin,
    "greedy-no-partition": greedy_no_partition,
    "dedicated": dedicated,
}
"""Name -> planner."""
