"""`FixedPricer`: stage costs of a fixed way of sharding, on the same cost model as Alpa's own."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from .....errors import InfeasibleError, InputError
from .....profiles.graph import CostModel, Graph
from .....simulator.mesh import LogicalMesh
from ...intra import Analysis, IntraOptions, IntraPlan, interval_costs, score
from ..clustering import Layer
from .intra_pricer import least_device_seconds, stage_plan
from .pricer import Recompute, StagePlan
from .repeats import interval_keys
from .table import Prices

__all__ = ["FixedPricer", "fixed_choice"]

Axes = Mapping[str, tuple[str, str]]
Shape = tuple[int, int]
Dims = tuple[tuple[str, ...], ...]


def fixed_choice(graph: Graph, axes: Axes, first: int, last: int, zero: int) -> dict[str, str | tuple[str, str]]:
    """What is fixed in a stage: loops of its heavy operators, which the others follow, and where weights are.

    Without ZeRO-3 weights that heavy operators read are stored as they are used.
    """
    parameters = {t.name for t in graph.parameters}
    found: dict[str, str | tuple[str, str]] = {}
    for op in graph.operators[first:last]:
        if not op.heavy:
            continue
        found[op.name] = axes[op.name]
        if zero == 3:
            continue
        for name, dims in zip(op.inputs, op.parsed.operands, strict=True):
            if name in parameters:
                found.setdefault(name, _natural(dims, axes[op.name]))
    return found


def _natural(dims: Dims, axes: tuple[str, str]) -> str:
    """Spec of an operand under the loops that the axes cut."""
    parts: list[str] = []
    for group in dims:
        cut = [str(a) for a in (0, 1) if axes[a] and group and group[0] == axes[a]]
        parts.append(f"S{''.join(cut)}" if cut else "R")
    return "".join(parts)


@dataclass(eq=False)
class FixedPricer:
    """A fixed loop for each mesh axis of every heavy operator.

    Parameters
    ----------
    costs : CostModel
        Seconds of operators.
    options : IntraOptions
        Beside memory, microbatches and recomputation.
    method : callable
        (graph, logical mesh shape) -> loops; see `planners.alpa.fixed`.
    views : callable
        Logical shapes on which it is meant; on others nothing is possible.
    batch_only : bool
        Whether every operator is cut along the batch. All runs of layers are then priced at once (`interval_costs`).
    adjust : callable
        What becomes of a stage's plan, for what the cost model does not know; not with `batch_only`.
    """

    costs: CostModel
    options: IntraOptions
    method: Callable[[Graph, Shape], Axes]
    views: Callable[[Shape], bool] = lambda _shape: True
    batch_only: bool = False
    adjust: Callable[[IntraPlan], IntraPlan] = lambda plan: plan
    _known: dict[int, tuple[Graph, Analysis, dict[Shape, Axes | None]]] = field(
        default_factory=dict[int, tuple[Graph, Analysis, dict[Shape, "Axes | None"]]], repr=False
    )

    @property
    def source(self) -> str:
        """Where the seconds come from."""
        return self.costs.source

    def least_seconds(self, graph: Graph) -> float:
        """As `IntraPricer` has it."""
        return least_device_seconds(graph, self.costs)

    def intervals(
        self, graph: Graph, layers: Sequence[Layer], mesh: LogicalMesh, recompute: Recompute, microbatches: int
    ) -> Prices:
        """What every run of layers takes; runs that are built alike are priced once."""
        n = len(layers)
        if self.batch_only and self._axes(graph, mesh.shape) is not None:
            return self._along_the_batch(graph, layers, mesh, recompute, microbatches)
        columns = np.full((5, n, n, 1), np.inf)
        known: dict[Hashable, tuple[float, ...]] = {}
        if self._axes(graph, mesh.shape) is not None:
            for (i, j), key in interval_keys(graph, layers).items():
                if key not in known:
                    try:
                        p = self.stage(graph, layers[i][0], layers[j][1], mesh, recompute, microbatches, 1, 0.0)
                    except (InfeasibleError, InputError):
                        known[key] = (np.inf,) * 5
                    else:
                        micro = p.forward_s + p.backward_input_s + p.backward_weight_s
                        once = p.reduce_s + p.update_s
                        known[key] = (micro, once, p.state_bytes, p.activation_bytes, p.work_bytes)
                columns[:, i, j, 0] = known[key]
        return Prices(*columns)

    def stage(
        self, graph: Graph, first: int, last: int, mesh: LogicalMesh, recompute: Recompute, microbatches: int,
        held: int, memory_bytes: float,
    ) -> StagePlan:  # fmt: skip
        """A stage as fixed; what is left open, such as small parameters, is chosen best."""
        axes = self._axes(graph, mesh.shape)
        if axes is None:
            raise InfeasibleError(f"a {mesh.shape[0]} x {mesh.shape[1]} mesh is not one for this way of sharding")
        options = replace(
            self.options, recompute=recompute, microbatches=microbatches, in_flight=held, memory_bytes=memory_bytes
        )
        choice = fixed_choice(graph, axes, first, last, self.options.zero)
        analysis = self._known[id(graph)][1]
        found = score(graph, first, last, mesh, self.costs, choice, options, analysis=analysis)
        return stage_plan(self.adjust(found))

    def _along_the_batch(
        self, graph: Graph, layers: Sequence[Layer], mesh: LogicalMesh, recompute: Recompute, microbatches: int
    ) -> Prices:
        """Without a price of memory the least time under `force_batch` is data parallelism with whole weights."""
        options = replace(self.options, recompute=recompute, microbatches=microbatches, force_batch=True)
        flat = mesh.mesh.view((mesh.mesh.n_devices, 1))
        analysis = self._known[id(graph)][1]
        t = interval_costs(graph, layers, flat, self.costs, options, prices=[(0.0, 0.0)], analysis=analysis)
        return Prices(t.seconds, t.iteration_s, t.state_bytes, t.activation_bytes, t.work_bytes)

    def _axes(self, graph: Graph, shape: Shape) -> Axes | None:
        if id(graph) not in self._known:
            self._known.clear()
            self._known[id(graph)] = (graph, Analysis(graph), {})
        kept = self._known[id(graph)][2]
        if shape not in kept:
            try:
                kept[shape] = self.method(graph, shape) if self.views(shape) else None
            except InputError:  # it cannot be cut so
                kept[shape] = None
        return kept[shape]
