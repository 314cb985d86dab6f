"""GraphPipe: pipelines whose stages form a graph (thesis ch. 3), and what it is compared with: PipeDream and Piper."""

from __future__ import annotations

from .stage_costs import SetCosts, StageCosts, stage_mesh

__all__ = ["SetCosts", "StageCosts", "stage_mesh"]
