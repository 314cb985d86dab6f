"""The simulator: clusters, meshes, plans, metrics and timelines, and a discrete-event model of each world.

Each world is a room: `serving` (models placed on groups of devices, AlpaServe), `llm` (token-by-token serving, vLLM and
Orca), `training` (pipelines of a training iteration) and `sharing` (jobs that share a cluster, Themis). Begin with the
room's ``simulate.py``, which is its door. Where a world has two engines, ``reference`` is the SimPy model that defines
the answer and ``compiled`` is the fast restatement that tests hold to it.

`simulate` here is the door of the serving world. Each name loads its room when it is first asked for: who simulates
language models needs none of the others.
"""

from typing import TYPE_CHECKING

from ..later import later

if TYPE_CHECKING:
    from .cluster import Cluster
    from .placement import Group, ParallelConfig, Placement, PlacementSchedule
    from .serving import Batching, SimulationResult, simulate
    from .serving.plan.file import Plan
    from .timeline import Timeline
    from .topology import Level

__all__ = [
    "Batching",
    "Cluster",
    "Group",
    "Level",
    "ParallelConfig",
    "Placement",
    "PlacementSchedule",
    "Plan",
    "SimulationResult",
    "Timeline",
    "simulate",
]

_ORIGINS = {
    "Cluster": "cluster",
    "Level": "topology",
    **dict.fromkeys(("Group", "ParallelConfig", "Placement", "PlacementSchedule"), "placement"),
    **dict.fromkeys(("Batching", "SimulationResult", "simulate"), "serving"),
    "Plan": "serving.plan.file",
    "Timeline": "timeline",
}
_ROOMS = (
    "cluster", "failures", "llm", "mesh", "metrics", "placement", "plan", "serving", "sharing", "summary", "timeline",
    "topology", "training",
)  # fmt: skip
__getattr__, __dir__ = later(__name__, _ORIGINS, _ROOMS)
