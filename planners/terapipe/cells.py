"""`Cell`: what a run of operators takes for a slice of b samples, i tokens and j tokens before it, on its mesh.

Seconds are those of the cost model for the operators as the slice has them, and of the mesh for their collectives, whose
bytes go with the slice. For the whole sequence they are the stage's own (Alpa's `score`), which the tests hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ...profiles.graph import CostModel, Graph, Operator
from ...profiles.graph.memory import saved
from ...profiles.graph.token_loops import TokenLoops, sequence_length, sliced, token_loops
from ...simulator.mesh import LogicalMesh
from ..alpa.fixed import megatron
from ..alpa.inter.fixed_pricer import fixed_choice
from ..alpa.inter.pricer import Recompute
from ..alpa.intra import Analysis, IntraOptions, IntraPlan, score
from .latency import SliceLatency, fit_latency

__all__ = ["Cell", "CellPricer"]

Floats = npt.NDArray[np.float64]
_PROBES = 9
"""Lengths and contexts at which the overhead of context is computed, to fit Eq. 2.9."""


@dataclass(frozen=True, slots=True)
class _Work:
    """Equal operators of a cell: computing.

    Parameters
    ----------
    operator : Operator
        For one sample on each replica, whole sequences.
    loops : TokenLoops
        Its loops over tokens.
    parts : dict
        Loop -> pieces.
    inputs, weights : bool
        Whether gradients of its operands and of its weights are made.
    again : bool
        Whether the backward pass computes it again.
    count : int
        How many there are.
    """

    operator: Operator
    loops: TokenLoops
    parts: dict[str, int]
    inputs: bool
    weights: bool
    again: bool
    count: int


@dataclass(frozen=True, slots=True)
class _Sent:
    """Equal collectives of a cell. `grows`: with how many loops over tokens their bytes go, and whether with samples."""

    backward: bool
    kind: str
    axes: tuple[int, ...]
    n_bytes: float
    grows: int
    count: int


@dataclass(frozen=True, eq=False)
class Cell:
    """Operators first … last − 1 on a logical mesh (data-parallel replicas, tensor-parallel devices).

    Parameters
    ----------
    plan : IntraPlan
        How they are run, for one sample on each replica.
    mesh : LogicalMesh
        Where.
    tokens : int
        L.
    costs : CostModel
        Seconds of operators.
    work, sent
        What is computed and communicated.
    square_bytes : float
        Of the plan's activation bytes, those that grow with length times (length + context): scores that are kept.
    carried_bytes : float
        Gradients of keys and values that a sample's slices add up, bytes on one device.
    """

    plan: IntraPlan
    mesh: LogicalMesh
    tokens: int
    costs: CostModel
    work: tuple[_Work, ...]
    sent: tuple[_Sent, ...]
    square_bytes: float
    carried_bytes: float

    def seconds(self, samples: int, length: int, context: int = 0) -> tuple[float, float]:
        """Forward and backward seconds of one slice of `samples` per replica, exactly as the cost model has them."""
        parts = [self._computing(w, samples, length, context) for w in self.work]
        return (
            sum(p[0] for p in parts) + self._sending(False, samples, length, context),
            sum(p[1] for p in parts) + self._sending(True, samples, length, context),
        )

    def latencies(self, samples: Sequence[int], unit: int) -> tuple[SliceLatency, SliceLatency]:
        """Forward and backward by Eq. 2.9: exact without context, the overhead of context fitted to some pairs."""
        lengths = np.arange(unit, self.tokens + 1, unit)
        probes = np.unique(np.linspace(1, len(lengths), min(_PROBES, len(lengths))).round().astype(int)) * unit
        rows: list[tuple[int, int, int, float, float]] = []
        for b in samples:
            rows += [(int(i), 0, b, *self.seconds(b, int(i))) for i in lengths]
            for i in probes:
                base = self._attention_seconds(b, int(i), 0)
                whole = next(r for r in rows if r[0] == i and r[2] == b and r[1] == 0)
                for j in (x for x in probes if x + i <= self.tokens):
                    more = self._attention_seconds(b, int(i), int(j))
                    rows.append((int(i), int(j), b, whole[3] + more[0] - base[0], whole[4] + more[1] - base[1]))
        i, j, b, forward, backward = (np.array(column) for column in zip(*rows, strict=True))
        return fit_latency(i, j, forward, b), fit_latency(i, j, backward, b)

    def activation_bytes(self, tokens: Sequence[int]) -> float:
        """Kept for the backward pass of one sample on each replica, cut into slices of these tokens, on one device."""
        share = sum(i * sum(tokens[: k + 1]) for k, i in enumerate(tokens)) / self.tokens**2
        return self.plan.activation_bytes - self.square_bytes * (1.0 - share)

    def _attention_seconds(self, samples: int, length: int, context: int) -> tuple[float, float]:
        """The part of `seconds` that depends on the context."""
        parts = [self._computing(w, samples, length, context) for w in self._contextual]
        return (
            sum(p[0] for p in parts) + self._sending(False, samples, length, context),
            sum(p[1] for p in parts) + self._sending(True, samples, length, context),
        )

    @cached_property
    def _contextual(self) -> tuple[_Work, ...]:
        return tuple(w for w in self.work if w.loops.key)

    def _computing(self, w: _Work, samples: int, length: int, context: int) -> tuple[float, float]:
        op = sliced(_grown(w.operator, samples), w.loops, length, context)
        t = self.costs.times(op, w.parts)
        back = (t.backward_input_s if w.inputs else 0.0) + (t.backward_weight_s if w.weights else 0.0)
        return w.count * t.forward_s, w.count * (back + (t.forward_s if w.again else 0.0))

    def _sending(self, backward: bool, samples: int, length: int, context: int) -> float:
        share = (1.0, samples * length / self.tokens, samples * length * (length + context) / self.tokens**2)
        return sum(
            x.count * self.mesh.seconds(x.kind, x.n_bytes * share[x.grows], x.axes)  # pyright: ignore[reportArgumentType]
            for x in self.sent
            if x.backward == backward
        )


class CellPricer:
    """Cells of a graph under Megatron's shardings, for one sample on each replica.

    Parameters
    ----------
    graph : Graph
        The model, at any batch size.
    costs : CostModel
        Seconds of operators.
    options : IntraOptions
        Optimiser, and so on; memory and recomputation are set per cell.

    Raises
    ------
    InputError
        If the graph cannot be computed slice by slice.
    """

    def __init__(self, graph: Graph, costs: CostModel, options: IntraOptions) -> None:
        self.graph, self.costs, self.options = graph, costs, options
        self.tokens, self._loops = sequence_length(graph), token_loops(graph)
        self._known: dict[tuple[object, ...], Cell] = {}
        self._sized: dict[int, tuple[Graph, Analysis]] = {}

    def sized(self, replicas: int) -> Graph:
        """The graph with one sample on each replica."""
        return self._of(replicas)[0]

    def cell(self, first: int, last: int, mesh: LogicalMesh, recompute: Recompute) -> Cell:
        """Operators first … last − 1 on a mesh of (replicas, tensor-parallel devices).

        Raises
        ------
        InputError
            If heads or vocabulary cannot be cut so.
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

    def _cell(
        self, graph: Graph, analysis: Analysis, plan: IntraPlan, mesh: LogicalMesh, recompute: Recompute
    ) -> Cell:
        repeated, live = analysis.repeated(recompute), analysis.differentiable
        kinds: dict[object, list[int]] = {}
        for k in range(plan.first, plan.last):
            op = graph.operators[k]
            key = (analysis.kinds[k], plan.operators[op.name].axes, repeated[k], self._gradients(graph, op, live))
            kinds.setdefault(key, []).append(k)
        work: list[_Work] = []
        for same in kinds.values():
            op, parts = self._on_one_replica(graph, same[0], plan, mesh)
            inputs, weights = self._gradients(graph, op, live)
            work.append(_Work(op, self._loops[same[0]], parts, inputs, weights, repeated[same[0]], len(same)))
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
            plan, mesh, self.tokens, self.costs, tuple(work), tuple(_Sent(*key, n) for key, n in sent.items()),
            square, carried,
        )  # fmt: skip

    def _on_one_replica(
        self, graph: Graph, k: int, plan: IntraPlan, mesh: LogicalMesh
    ) -> tuple[Operator, dict[str, int]]:
        """An operator and what it is cut into; the same one for any number of replicas where they cut its samples.

        So what a cost model has said of it holds for all of them.
        """
        op, axes, parts = graph.operators[k], plan.operators[graph.operators[k].name].axes, dict[str, int]()
        grows = [x.name for x in op.loops if x.batch]
        alone = mesh.shape[0] > 1 and grows == [axes[0]] and axes[1] != axes[0]
        for loop, n in zip(axes, mesh.shape, strict=True):
            if loop and n > 1 and not (alone and loop == axes[0]):
                parts[loop] = parts.get(loop, 1) * n
        return (self._of(1)[0].operators[k] if alone else op), parts

    def _gradients(self, graph: Graph, op: Operator, live: frozenset[str]) -> tuple[bool, bool]:
        """Whether an operator makes gradients of its operands that are no parameters, and of those that are."""
        parameters = {t.name for t in graph.parameters}
        trained = op.name in live
        return trained and any(name in live and name not in parameters for name in op.inputs), trained

    def _grows(self, graph: Graph, name: str) -> int:
        """Loops over tokens of a value: 0 for one number, as the loss, 2 for scores."""
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
        """Values of this cell that attention reads along its key loop: keys and values."""
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


def _grown(op: Operator, samples: int) -> Operator:
    """An operator of one sample per replica, for more."""
    if samples == 1:
        return op
    loops = tuple(replace(x, size=x.size * samples) if x.batch else x for x in op.loops)
    grown = np.prod([b.size / a.size for a, b in zip(op.loops, loops, strict=True)])
    return replace(op, loops=loops, flops=op.flops * float(grown))
