"""GraphPipe: a planner for pipelines whose stages form a graph (thesis ch. 3).

Begin with `planner` (`plan`). It builds a tree of units (`tree`), prices every candidate stage (`nodes`, `candidates`),
searches for the least bottleneck (`search` with its compiled `kernels`, `partitioner`), trades it against samples in
flight (`sweep`), and reads the stages off the solution (`rebuild`). The room `schedule` orders their passes. The
options of PipeDream and Piper, with which it is compared, are shown here as well.
"""

from __future__ import annotations

from ..pipedream.partition import PipeDreamPartition, PipeDreamStage, pipedream_partition
from ..pipedream.planner import pipedream
from ..pipedream.profile import PipeDreamProfile, ProfiledLayer
from ..piper.instance import PiperInstance, PiperNode, PiperOption
from ..piper.partition import PiperPartition, piper_partition, piper_value
from ..piper.planner import piper
from ..piper.problem import PiperStage
from ..stages.checks import check_stage_graph
from ..stages.costs import SetCosts, StageCosts, stage_mesh
from ..stages.plan import ChosenStage, stage_plan
from ..stages.sequential.options import SequentialOptions
from ..stages.units import group_operators, unit_edges
from .options import GraphPipeOptions
from .planner import plan
from .schedule.in_flight import in_flight

__all__ = [
    "ChosenStage", "GraphPipeOptions", "PipeDreamPartition", "PipeDreamProfile", "PipeDreamStage", "PiperInstance",
    "PiperNode", "PiperOption", "PiperPartition", "PiperStage", "ProfiledLayer", "SequentialOptions", "SetCosts",
    "StageCosts", "check_stage_graph", "group_operators", "in_flight", "pipedream", "pipedream_partition", "piper",
    "piper_partition", "piper_value", "plan", "stage_mesh", "stage_plan", "unit_edges",
]  # fmt: skip
