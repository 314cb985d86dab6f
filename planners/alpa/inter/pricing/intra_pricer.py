"""`IntraPricer`: stage costs from Alpa's intra-operator pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from .....errors import InputError
from .....profiles.graph import CostModel, Graph
from .....simulator.cluster import Cluster
from .....simulator.mesh import LogicalMesh
from ...intra import Analysis, IntraOptions, IntraPlan, interval_costs
from ..clustering import Layer
from ..flops import has_gradient
from .pricer import Recompute, StagePlan
from .refine import solve_chosen
from .table import Prices

if TYPE_CHECKING:
    from ...options import AlpaOptions

__all__ = ["IntraPricer", "least_device_seconds", "stage_plan"]


@dataclass(eq=False)
class IntraPricer:
    """Alpa's intra-operator pass (§4): every stage sharded by its ILP.

    Parameters
    ----------
    costs : CostModel
        Seconds of operators.
    options : IntraOptions
        Beside memory, microbatches and recomputation, which the inter-operator pass sets.
    solve_s : float
        As `AlpaOptions` has it.
    """

    costs: CostModel
    options: IntraOptions
    solve_s: float = 0.0
    _layers: tuple[Layer, ...] = ()
    _analyses: dict[int, tuple[Graph, Analysis]] = field(default_factory=dict[int, tuple[Graph, Analysis]], repr=False)

    @classmethod
    def of(cls, cluster: Cluster, options: AlpaOptions, costs: CostModel | None = None) -> IntraPricer:
        """The pass as a planner's options want it; by default on a roofline of the cluster's devices."""
        from .....profiles.graph import roofline

        return cls(costs or roofline(cluster.spec, dtype=None), intra_options(options), options.solve_s)

    @property
    def source(self) -> str:
        """Where the seconds come from."""
        return self.costs.source

    def least_seconds(self, graph: Graph) -> float:
        """Device-seconds of a microbatch on one device; cutting operators only adds to them."""
        return least_device_seconds(graph, self.costs)

    def intervals(
        self, graph: Graph, layers: Sequence[Layer], mesh: LogicalMesh, recompute: Recompute, microbatches: int
    ) -> Prices:
        """What every run of layers takes."""
        self._layers = tuple(layers)
        options = replace(self.options, recompute=recompute, microbatches=microbatches)
        try:
            table = interval_costs(graph, layers, mesh, self.costs, options, analysis=self._analysis(graph))
        except InputError:
            if not options.force_batch:
                raise
            nothing = np.full((len(layers), len(layers), 1), np.inf)  # axis 0 does not divide the batch
            return Prices(nothing, nothing, nothing, nothing, nothing)
        return Prices(table.seconds, table.iteration_s, table.state_bytes, table.activation_bytes, table.work_bytes)

    def stage(
        self, graph: Graph, first: int, last: int, mesh: LogicalMesh, recompute: Recompute, microbatches: int,
        held: int, memory_bytes: float,
    ) -> StagePlan:  # fmt: skip
        """The best plan of a stage under its memory bound."""
        options = replace(
            self.options, recompute=recompute, microbatches=microbatches, in_flight=held, memory_bytes=memory_bytes
        )
        inside = [layer for layer in self._layers if first <= layer[0] and layer[1] <= last]
        whole = bool(inside) and inside[0][0] == first and inside[-1][1] == last
        return stage_plan(
            solve_chosen(
                graph,
                inside if whole else [(first, last)],
                mesh,
                self.costs,
                options,
                analysis=self._analysis(graph),
                solve_s=self.solve_s,
            )
        )

    def _analysis(self, graph: Graph) -> Analysis:
        if id(graph) not in self._analyses:
            self._analyses.clear()  # one microbatch size at a time
            self._analyses[id(graph)] = (graph, Analysis(graph))
        return self._analyses[id(graph)][1]


def intra_options(options: AlpaOptions) -> IntraOptions:
    """The intra-operator pass's options that a planner's say."""
    return IntraOptions(
        zero=options.zero,
        force_batch=options.force_batch,
        sequence_parallel=options.sequence_parallel,
        overlap=options.overlap,
        optimizer=options.optimizer,
    )


def stage_plan(plan: IntraPlan) -> StagePlan:
    """An intra-operator plan in the words of a training plan."""
    return StagePlan(
        forward_s=plan.forward_s,
        backward_input_s=plan.backward_input_s,
        backward_weight_s=plan.backward_weight_s,
        reduce_s=plan.reduce_s,
        update_s=plan.update_s,
        state_bytes=plan.state_bytes,
        activation_bytes=plan.activation_bytes,
        work_bytes=plan.work_bytes,
        operators=plan.operators,
        inputs=plan.inputs,
        parameters=plan.parameters,
        optimizer_states=plan.optimizer_states,
        collectives=plan.counts,
        traffic=plan.traffic,
        gap=plan.gap,
    )


def least_device_seconds(graph: Graph, costs: CostModel) -> float:
    """Seconds of forward and backward of one microbatch on one device, each operator whole.

    A bound from below of devices times seconds: cut operators fill a device worse, never better.
    """
    reached = has_gradient(graph)
    total = 0.0
    for op in graph.operators:
        times = costs.times(op, {})
        total += times.forward_s
        if reached[op.name]:
            total += times.backward_weight_s
            if any(reached[name] and name in graph.index for name in op.inputs):
                total += times.backward_input_s
    return total
