"""`CellPricer`: turn runs of operators of a graph into cells: what each computes, communicates and keeps."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ...profiles.graph import CostModel, Graph, Operator, OperatorTimes
from ...profiles.graph.memory import saved
from ...profiles.graph.token_loops import sequence_length, token_loops
from ...simulator.mesh import LogicalMesh
from ..alpa.fixed import megatron
from ..alpa.inter.pricing.fixed_pricer import fixed_choice
from ..alpa.inter.pricing.pricer import Recompute
from ..alpa.intra import Analysis, IntraOptions, IntraPlan, score
from .cells import Cell, Sent, Work

__all__ = ["CellPricer"]


class CellPricer:
    """Makes the cells of a graph under Megatron's shardings, for one sample on each replica.

    Parameters
    ----------
    graph : Graph
        The model, at any batch size.
    costs : CostModel
        Seconds of operators.
    options : IntraOptions
        The optimiser and the like; recomputation is set for each cell.

    Raises
    ------
    InputError
        If the graph cannot be computed slice by slice.
    """

    def __init__(self, graph: Graph, costs: CostModel, options: IntraOptions) -> None:
        self.graph, self.costs, self.options = graph, costs, options
        self.tokens, self._loops = sequence_length(graph), token_loops(graph)
        self._known: dict[tuple[object, ...], Cell] = {}
        self._times: dict[tuple[object, ...], OperatorTimes] = {}
        self._sized: dict[int, tuple[Graph, Analysis]] = {}

    def sized(self, replicas: int) -> Graph:
        """The graph with one sample on each replica."""
        return self._of(replicas)[0]

    def cell(self, first: int, last: int, mesh: LogicalMesh, recompute: Recompute) -> Cell:
        """The cell of operators first … last − 1 on a mesh of (replicas, tensor-parallel devices).

        Raises
        ------
        InputError
            If the heads or the vocabulary cannot be cut over so many devices.
        """
        key = (first, last, mesh.shape, mesh.mesh.hosts, mesh.mesh.devices, recompute)
        if key not in self._known:
            graph, analysis = self._of(mesh.shape[0])
            axes = megatron(graph, mesh.shape)  # pyright: ignore[reportArgumentType]
            choice = fixed_choice(graph, axes, first, last, self.options.zero)
            options = replace(self.options, recompute=recompute)
            plan = score(graph, first, last, mesh, self.costs, choice, options, analysis=analysis)
            self._known[key] = self._cell(graph, analysis, plan, mesh, recompute)
        return self._known[key]

    def _of(self, replicas: int) -> tuple[Graph, Analysis]:
        if replicas not in self._sized:
            graph = self.graph.with_batch(replicas)
            self._sized[replicas] = (graph, Analysis(graph))
        return self._sized[replicas]

    def _cell(self, graph: Graph, analysis: Analysis, plan: IntraPlan, mesh: LogicalMesh, recompute: Recompute) -> Cell:
        repeated, live = analysis.repeated(recompute), analysis.differentiable
        kinds: dict[object, list[int]] = {}
        for k in range(plan.first, plan.last):
            op = graph.operators[k]
            key = (analysis.kinds[k], plan.operators[op.name].axes, repeated[k], self._gradients(graph, op, live))
            kinds.setdefault(key, []).append(k)
        work: list[Work] = []
        for same in kinds.values():
            op, parts = self._on_one_replica(graph, same[0], plan, mesh)
            inputs, weights = self._gradients(graph, op, live)
            number = (op.shape, analysis.kinds[same[0]], *sorted(parts.items()))
            work.append(Work(number, op, self._loops[same[0]], parts, inputs, weights, repeated[same[0]], len(same)))
        sent = Counter(
            (c.phase == "backward", c.collective, c.axes, c.n_bytes, self._grows(graph, c.value))
            for c in plan.collectives
            if c.phase in ("forward", "backward")
        )
        square = sum(
            self._local_bytes(graph, plan, mesh, name)
            for name in saved(graph, range(plan.first, plan.last))
            if self._grows(graph, name) == 2 and name in plan.operators and not repeated[graph.index[name]]
        )
        carried = sum(self._local_bytes(graph, plan, mesh, name) for name in self._carried(graph, plan, live))
        return Cell(
            plan, mesh, self.tokens, self.costs, tuple(work), tuple(Sent(*key, n) for key, n in sent.items()),
            square, carried, self._times,
        )  # fmt: skip

    def _on_one_replica(
        self, graph: Graph, k: int, plan: IntraPlan, mesh: LogicalMesh
    ) -> tuple[Operator, dict[str, int]]:
        """An operator as one replica runs it, and the number of pieces of each of its loops.

        If replicas only cut its samples, the result is the same for any number of replicas. So what a cost model has
        once said about the operator can be used for all of them.
        """
        op, axes, parts = graph.operators[k], plan.operators[graph.operators[k].name].axes, dict[str, int]()
        grows = [x.name for x in op.loops if x.batch]
        alone = mesh.shape[0] > 1 and grows == [axes[0]] and axes[1] != axes[0]
        for loop, n in zip(axes, mesh.shape, strict=True):
            if loop and n > 1 and not (alone and loop == axes[0]):
                parts[loop] = parts.get(loop, 1) * n
        return (self._of(1)[0].operators[k] if alone else op), parts

    def _gradients(self, graph: Graph, op: Operator, live: frozenset[str]) -> tuple[bool, bool]:
        """Whether an operator's backward pass makes gradients of its activations, and of its parameters."""
        parameters = {t.name for t in graph.parameters}
        trained = op.name in live
        return trained and any(name in live and name not in parameters for name in op.inputs), trained

    def _grows(self, graph: Graph, name: str) -> int:
        """With how many loops over tokens a value grows: 0 for a single number such as the loss, 2 for scores."""
        if name not in graph.index:
            return 1
        op, loops = graph.operators[graph.index[name]], self._loops[graph.index[name]]
        if op.kind == "loss":
            return 0 if op.shape == () else 1
        mine = {group[0] for group in op.parsed.result if group}
        return sum(bool(loop) and loop in mine for loop in (loops.query, loops.key))

    def _local_bytes(self, graph: Graph, plan: IntraPlan, mesh: LogicalMesh, name: str) -> float:
        op = graph.operators[graph.index[name]]
        pieces = 1
        for loop, n in zip(plan.operators[name].axes, mesh.shape, strict=True):
            if any(loop in group for group in op.parsed.result):
                pieces *= n
        return op.bytes / pieces

    def _carried(self, graph: Graph, plan: IntraPlan, live: frozenset[str]) -> list[str]:
        """Values of this cell that attention reads along its key loop: the keys and values."""
        found: dict[str, None] = {}
        for k in range(plan.first, plan.last):
            op, loops = graph.operators[k], self._loops[k]
            if not loops.key:
                continue
            for name, dims in zip(op.inputs, op.parsed.operands, strict=True):
                over = {group[0] for group in dims if group}
                if loops.key in over and loops.query not in over and name in plan.operators and name in live:
                    found[name] = None
        return list(found)
