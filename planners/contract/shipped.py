"""The planners that come with Meshwright, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...simulator.serving.plan.file import Plan
from .. import alpaserve
from ..alpaserve.baselines import dedicated, greedy_no_partition, round_robin, selective_replication
from ..alpaserve.clockwork import ScheduledPlan, clockwork_pp
from ..alpaserve.options import ClockworkOptions, InstanceOptions, PlanOptions, ReplicationOptions

__all__ = ["OPTIONS", "PLANNERS"]

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

OPTIONS: dict[str, type[InstanceOptions]] = {
    "alpaserve": PlanOptions,
    "alpaserve-local-search": PlanOptions,
    "selective-replication": ReplicationOptions,
    "clockwork++": ClockworkOptions,
    "round-robin": InstanceOptions,
    "greedy-no-partition": ReplicationOptions,
    "dedicated": InstanceOptions,
}
"""Name -> what it takes by name besides the keywords of its signature."""
