"""How to serve LLMs on so many devices: parallelism, scheduler, memory and routing for the best goodput."""

from .candidate import Candidate, EngineShape
from .costs import CostSource
from .demand import DrawnTraffic, GivenTraffic, LengthPairs, LLMDemand
from .layouts import Rejected
from .planner import plan
from .planning import FrontPoint, Planning
from .search import Effort
from .sharing import SharedPlanning, plan_shared
from .space import SearchSpace

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
