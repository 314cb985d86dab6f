"""`Clipping`: the norm of all gradients together is brought down to a bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ....profiles.graph import Graph
    from ....simulator.training.plan.file import TrainingPlan
    from ..stage.runner import StageRunner

__all__ = ["Clipping", "norm_scale"]

EPS = 1e-6
"""What `torch.nn.utils.clip_grad_norm_` adds to the norm before it divides by it."""


def norm_scale(norm: float, most: float) -> float:
    """What gradients of this norm are multiplied by, as `torch.nn.utils.clip_grad_norm_` has it."""
    return min(1.0, most / (norm + EPS))


@dataclass(frozen=True, eq=False)
class Clipping:
    """Finds, on all ranks together, what gradients are multiplied by before the step.

    Parameters
    ----------
    most : float
        The largest norm.
    first : mapping
        Tensor -> the first stage that reads it: there it is counted.
    everyone : object
        The process group of all ranks.
    """

    most: float
    first: Mapping[str, int]
    everyone: Any

    @classmethod
    def of(cls, plan: TrainingPlan, graph: Graph, most: float, everyone: Any) -> Clipping:
        """For the stages of a plan, and its graph in the plan's order."""
        first: dict[str, int] = {}
        for number, stage in enumerate(plan.stages):
            for operator in graph.operators[stage.first : stage.last]:
                for name in operator.inputs:
                    first.setdefault(name, number)
        return cls(most, first, everyone)

    def scale(self, runners: Mapping[int, StageRunner]) -> float:
        """The factor of this iteration; every rank must call it, once its gradients are reduced."""
        import torch
        import torch.distributed as dist

        total = torch.zeros(1, dtype=torch.float64)
        for number, runner in runners.items():
            for name, gradient in runner.gradients.items():
                if self.first[name] == number and runner.counts_for(name):
                    total += gradient.double().square().sum()
        dist.all_reduce(total, group=self.everyone)
        return norm_scale(float(total.sqrt()), self.most)
