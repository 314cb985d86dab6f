"""The simulator: clusters, placements, plans; the simulated worlds; metrics; timelines."""

from .cluster import Cluster
from .placement import Group, ParallelConfig, Placement, PlacementSchedule
from .serving import Batching, SimulationResult, simulate
from .serving.plan.file import Plan
from .timeline import Timeline

__all__ = [
    "Batching",
    "Cluster",
    "Group",
    "ParallelConfig",
    "Placement",
    "PlacementSchedule",
    "Plan",
    "SimulationResult",
    "Timeline",
    "simulate",
]
