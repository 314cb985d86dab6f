"""GraphPipe: pipelines whose stages form a graph (thesis ch. 3), and what it is compared with: PipeDream and Piper."""

from __future__ import annotations

from .pipedream import pipedream
from .sequential import SequentialOptions
from .stage_costs import SetCosts, StageCosts, stage_mesh
from .stage_plan import ChosenStage, stage_plan
from .stage_units import group_operators, unit_edges

__all__ = [
    "ChosenStage", "SequentialOptions", "SetCosts", "StageCosts", "group_operators", "pipedream", "stage_mesh",
    "stage_plan", "unit_edges",
]  # fmt: skip
