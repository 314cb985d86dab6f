"""`plan_forward`: the intra-op pass with the inference objective, on the best logical mesh of `op` devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ....profiles.graph import DTYPE_BYTES, CostModel, Graph, OperatorTimes
from ....profiles.graph.operator import Operator
from ....profiles.hardware import DeviceSpec
from ....simulator.cluster import Cluster
from ....simulator.mesh import LogicalMesh, Mesh
from ..inter.shapes import logical_shapes
from ..intra import Analysis, IntraOptions, IntraPlan, ShardingSpec, score
from ..intra.solve import Choice
from .options import InferenceOptions

__all__ = ["ForwardPlan", "Scaled", "plan_forward"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Scaled:
    """A cost model whose seconds are multiplied by one factor.

    Parameters
    ----------
    costs : CostModel
        Seconds before.
    factor : float
        What they are multiplied by.
    """

    costs: CostModel
    factor: float

    @property
    def source(self) -> str:
        """What the seconds rest on."""
        return f"{self.costs.source}, times {self.factor:.4g}"

    def times(self, op: Operator, parts: Mapping[str, int]) -> OperatorTimes:
        """See `CostModel`."""
        found, f = self.costs.times(op, parts), self.factor
        return OperatorTimes(f * found.forward_s, f * found.backward_input_s, f * found.backward_weight_s)


@dataclass(frozen=True, eq=False)
class ForwardPlan:
    """How a model's operators run on `op` devices, and what each takes.

    Parameters
    ----------
    graph : Graph
        The forward graph that was planned.
    plan : IntraPlan
        Sharding of every operator.
    storage : mapping of str to str
        Parameter -> spec that it is kept in where all its readers are on the same devices; see `weight_bytes`.
    computation_s, collective_s : ndarray, shape (operators,)
        Seconds of each operator on a device; of its collectives and of bringing its operands to it.
    live_bytes : ndarray, shape (operators,)
        Bytes of activations on a device while each operator runs.
    """

    graph: Graph
    plan: IntraPlan
    storage: Mapping[str, str]
    computation_s: Floats
    collective_s: Floats
    live_bytes: Floats

    @property
    def seconds(self) -> float:
        """One request, all operators one after another."""
        return self.plan.forward_s

    def weight_bytes(self, first: int, last: int) -> float:
        """Bytes on one device of the parameters that operators first … last − 1 read, each once.

        A parameter is kept as these readers need it, if they need it alike, else as the plan keeps it. Whole and cut
        cost the same seconds, since slicing is free: the ILP has no reason to prefer the smaller.
        """
        total = 0.0
        for name, spec in _stored(self.graph, self.plan, first, last).items():
            tensor = self.graph.tensors[name]
            local = ShardingSpec.parse(spec).local_bytes(tensor.shape, DTYPE_BYTES[tensor.dtype], self.plan.logical)
            total += float(local)
        return total


def plan_forward(
    graph: Graph,
    op: int,
    device: str | DeviceSpec,
    costs: CostModel,
    options: InferenceOptions | None = None,
    *,
    fixed: ForwardPlan | None = None,
) -> ForwardPlan:
    """The sharding of a forward graph over `op` devices with the least seconds for one request.

    Parameters
    ----------
    graph : Graph
        Of `forward_graph`, at the batch size that is served.
    op : int
        Devices.
    device : str or DeviceSpec
        Their type, whose links the collectives use.
    costs : CostModel
        Seconds of operators.
    options : InferenceOptions, optional
        See there.
    fixed : ForwardPlan, optional
        A plan for another batch size, whose logical mesh and storage of weights are kept.

    Raises
    ------
    InputError
        If `op` devices are no whole nodes.
    """
    chosen = options or InferenceOptions()
    intra = IntraOptions(data_parallel=chosen.data_parallel, time_limit_s=chosen.time_limit_s)
    mesh = _mesh(op, device, chosen.devices_per_node)
    analysis = Analysis(graph)
    n = len(graph.operators)
    if fixed is not None:
        shapes: tuple[tuple[int, int], ...] = (fixed.plan.logical,)
        weights: Choice = dict(fixed.storage)
    else:
        shapes, weights = logical_shapes(mesh), {}
    views = [mesh.view(shape) for shape in shapes]
    plans = [(score(graph, 0, n, view, costs, weights, intra, analysis=analysis), view) for view in views]
    plan, view = min(plans, key=lambda pair: pair[0].objective)
    return _accounted(graph, plan, view, costs)


def _mesh(op: int, device: str | DeviceSpec, devices_per_node: int) -> Mesh:
    """`op` adjacent devices: of one node, or whole nodes."""
    if op <= devices_per_node:
        return Mesh(Cluster(1, devices_per_node, device), 1, op)
    if op % devices_per_node:
        raise InputError(f"op: {op} devices are no whole nodes of {devices_per_node}; use a multiple of it")
    nodes = op // devices_per_node
    return Mesh(Cluster(nodes, devices_per_node, device), nodes, devices_per_node)


def _accounted(graph: Graph, plan: IntraPlan, mesh: LogicalMesh, costs: CostModel) -> ForwardPlan:
    n = len(graph.operators)
    computation, collective = np.zeros(n), np.zeros(n)
    for i, op in enumerate(graph.operators):
        parts: dict[str, int] = {}
        for loop, size in zip(plan.operators[op.name].axes, mesh.shape, strict=True):
            if loop and size > 1:
                parts[loop] = parts.get(loop, 1) * size
        computation[i] = costs.times(op, parts).forward_s
    for c in plan.collectives:
        collective[graph.index[c.operator]] += c.seconds
    return ForwardPlan(graph, plan, _stored(graph, plan, 0, n), computation, collective, _live(graph, plan, mesh.shape))


def _stored(graph: Graph, plan: IntraPlan, first: int, last: int) -> dict[str, str]:
    needed: dict[str, set[str]] = {}
    for op in graph.operators[first:last]:
        for name, spec in zip(op.inputs, plan.operators[op.name].operands, strict=True):
            if name in plan.parameters:
                needed.setdefault(name, set()).add(spec)
    return {name: min(specs) if len(specs) == 1 else plan.parameters[name] for name, specs in needed.items()}


def _live(graph: Graph, plan: IntraPlan, shape: tuple[int, int]) -> Floats:
    """Bytes on a device of values that are made and still read, inputs included, and of operands' other copies."""
    n = len(graph.operators)
    live = np.zeros(n)
    local: dict[str, tuple[str, float]] = {}

    def size(name: str, spec: str) -> float:
        at = graph.index.get(name)
        tensor = graph.tensors[name] if at is None else graph.operators[at]
        return float(ShardingSpec.parse(spec).local_bytes(tensor.shape, DTYPE_BYTES[tensor.dtype], shape))

    for tensor in graph.inputs:
        readers = graph.consumers[tensor.name]
        if readers:
            live[: readers[-1][0] + 1] += tensor.bytes
    for i, op in enumerate(graph.operators):
        entry = plan.operators[op.name]
        mine = 0.0 if op.kind == "view" else size(op.name, entry.result)
        local[op.name] = (entry.result, mine)
        readers = graph.consumers[op.name]
        live[i : (readers[-1][0] if readers else i) + 1] += mine
        for name, spec in zip(op.inputs, entry.operands, strict=True):
            if name in local and spec != local[name][0]:
                live[i] += size(name, spec)
    return live
