"""DeepSpeed as Alpa's evaluation ran it for MoE models (§3.8.1), with what the paper does not say as options."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from ...errors import InputError
from ...profiles.graph import CostModel, Graph, Operator
from ...simulator.cluster import Cluster
from .convolutions import Scaled

if TYPE_CHECKING:
    from ...planners.alpa import AlpaOptions
    from ...planners.alpa.intra import IntraPlan
    from ...simulator.training.plan.file import TrainingPlan

__all__ = ["DeepSpeed"]


@dataclass(frozen=True, slots=True)
class DeepSpeed:
    """Expert parallelism and ZeRO on one mesh (`planners.alpa.baselines.deepspeed_moe`).

    Parameters
    ----------
    zero : {0, 2, 3}
        Stage of ZeRO. The authors' benchmark switches 2 on.
    every_microbatch : bool
        Whether gradients are summed after each microbatch. ZeRO-2 must: each rank keeps only its share of the summed
        gradients (DeepSpeed's maintainers in github.com/deepspeedai/DeepSpeed/issues/2252).
    all_to_all : float
        Share of the links' rate that its all-to-alls reach, in (0, 1]. Not known; 1, which favours it, is a guess.
    kernels : float
        How many times as long its gates, dispatches and combinations take as Alpa's, > 0. Both are GShard's einsums;
        that they are equally fast is a guess.

    Raises
    ------
    InputError
        If the share or the factor is out of range.
    """

    zero: Literal[0, 2, 3] = 2
    every_microbatch: bool = True
    all_to_all: float = 1.0
    kernels: float = 1.0

    def __post_init__(self) -> None:
        if not (0 < self.all_to_all <= 1 and self.kernels > 0):
            raise InputError(
                f"DeepSpeed: expected all_to_all in (0, 1] and kernels > 0 (got {self.all_to_all}, {self.kernels})"
            )

    def plan(
        self, graph: Graph, cluster: Cluster, batch: int, microbatches: int, options: AlpaOptions, costs: CostModel
    ) -> TrainingPlan:
        """Its plan for a batch in so many microbatches.

        Raises
        ------
        InfeasibleError
            If it does not fit the memory.
        """
        from ...planners.alpa import plan
        from ...planners.alpa.fixed import expert_parallel
        from ...planners.alpa.inter.pricing.fixed_pricer import FixedPricer
        from ...planners.alpa.inter.pricing.intra_pricer import intra_options

        chosen = replace(options, zero=self.zero, stages="one")
        ways = replace(intra_options(chosen), reduce_every_microbatch=self.every_microbatch)
        priced = Scaled(costs, self._factor, costs.source)
        pricer = FixedPricer(priced, ways, expert_parallel, adjust=self._sent)
        return plan(
            graph, cluster, global_batch=batch, microbatches=microbatches, options=chosen, pricer=pricer,
            planner="deepspeed-moe",
        )  # fmt: skip

    def _factor(self, op: Operator) -> float:
        return self.kernels if op.kind in ("gate", "dispatch") else 1.0

    def _sent(self, plan: IntraPlan) -> IntraPlan:
        """The plan with all-to-alls at their share of the links' rate."""
        more = 1 / self.all_to_all - 1
        waits = {
            phase: more * sum(c.seconds for c in plan.collectives if (c.collective, c.phase) == ("all_to_all", phase))
            for phase in ("forward", "backward")
        }
        return replace(
            plan,
            forward_s=plan.forward_s + waits["forward"],
            backward_input_s=plan.backward_input_s + waits["backward"],
        )
