"""How to serve LLMs on so many devices: parallelism, scheduler, memory and routing for the best goodput."""

from typing import TYPE_CHECKING

from ...later import later

if TYPE_CHECKING:
    from .candidate import Candidate, EngineShape
    from .costs import CostSource
    from .demand import DrawnTraffic, GivenTraffic, LengthPairs, LLMDemand
    from .layouts import Rejected
    from .planner import plan
    from .planning import FrontPoint, Planning
    from .sharing import SharedPlanning, plan_shared
    from .space import Effort, SearchSpace

__all__ = [
    "Candidate",
    "CostSource",
    "DrawnTraffic",
    "Effort",
    "EngineShape",
    "FrontPoint",
    "GivenTraffic",
    "LLMDemand",
    "LengthPairs",
    "Planning",
    "Rejected",
    "SearchSpace",
    "SharedPlanning",
    "plan",
    "plan_shared",
]

_ORIGINS = {
    **dict.fromkeys(("Candidate", "EngineShape"), "candidate"),
    "CostSource": "costs",
    **dict.fromkeys(("DrawnTraffic", "GivenTraffic", "LengthPairs", "LLMDemand"), "demand"),
    "Rejected": "layouts",
    "plan": "planner",
    **dict.fromkeys(("FrontPoint", "Planning"), "planning"),
    **dict.fromkeys(("SharedPlanning", "plan_shared"), "sharing"),
    **dict.fromkeys(("Effort", "SearchSpace"), "space"),
}
"""To simulate a plan needs its demand, and no search."""
__getattr__, __dir__ = later(__name__, _ORIGINS)
