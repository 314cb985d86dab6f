"""The simulator: clusters, meshes, plans, metrics and timelines, and a discrete-event model of each world.

Each world is a room: `serving` (models placed on groups of devices, AlpaServe), `llm` (token-by-token serving, vLLM and
Orca), `training` (pipelines of a training iteration) and `sharing` (jobs that share a cluster, Themis). Begin with the
room's ``simulate.py``, which is its door. Where a world has two engines, ``reference`` is the SimPy model that defines
the answer and ``compiled`` is the fast restatement that tests hold to it.

`simulate` here is the door of the serving world.
"""

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
