"""GraphPipe: pipelines whose stages form a graph (thesis ch. 3), and what it is compared with: PipeDream and Piper."""

from __future__ import annotations

from .checks import check_stage_graph
from .in_flight import in_flight
from .options import GraphPipeOptions
from .pipedream import pipedream
from .pipedream_partition import PipeDreamPartition, PipeDreamStage, pipedream_partition
from .pipedream_profile import PipeDreamProfile, ProfiledLayer
from .piper import piper
from .piper_instance import PiperInstance, PiperNode, PiperOption
from .piper_partition import PiperPartition, piper_partition, piper_value
from .piper_problem import PiperStage
from .planner import plan
from .sequential_options import SequentialOptions
from .stage_costs import SetCosts, StageCosts, stage_mesh
from .stage_plan import ChosenStage, stage_plan
from .stage_units import group_operators, unit_edges

__all__ = [
    "ChosenStage", "GraphPipeOptions", "PipeDreamPartition", "PipeDreamProfile", "PipeDreamStage", "PiperInstance",
    "PiperNode", "PiperOption", "PiperPartition", "PiperStage", "ProfiledLayer", "SequentialOptions", "SetCosts",
    "StageCosts", "check_stage_graph", "group_operators", "in_flight", "pipedream", "pipedream_partition", "piper",
    "piper_partition", "piper_value", "plan", "stage_mesh", "stage_plan", "unit_edges",
]  # fmt: skip
