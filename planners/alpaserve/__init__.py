"""AlpaServe's planner (Algorithms 1 and 2), its baselines, and what goes beyond the paper. `plan` is the door."""

from __future__ import annotations

from .baselines import dedicated, greedy_no_partition, round_robin, selective_replication
from .bound import upper_bound
from .clockwork import ScheduledPlan, clockwork_pp
from .evaluator import Evaluator
from .instance import Instance, build_instance
from .inverse import Answer, Probe, fewest_devices, highest_cv, highest_rate, tightest_slo
from .local_search import local_search
from .options import ClockworkOptions, InstanceOptions, PartitionOptions, PlanOptions, ReplicationOptions
from .partition import Search
from .planner import plan

__all__ = [
    "Answer",
    "ClockworkOptions",
    "Evaluator",
    "Instance",
    "InstanceOptions",
    "PartitionOptions",
    "PlanOptions",
    "Probe",
    "ReplicationOptions",
    "ScheduledPlan",
    "Search",
    "build_instance",
    "clockwork_pp",
    "dedicated",
    "fewest_devices",
    "greedy_no_partition",
    "highest_cv",
    "highest_rate",
    "local_search",
    "plan",
    "round_robin",
    "selective_replication",
    "tightest_slo",
    "upper_bound",
]
