"""`StageLayout`: all that is known of a stage before it runs: layouts, routes between them, who needs a gradient."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ....errors import InputError
from ....profiles.graph import DTYPE_BYTES, Graph, Operator
from ....profiles.graph.compute.loops import Local
from ....simulator.mesh import LogicalMesh
from ....simulator.training.plan.file import OperatorEntry, TrainingPlan
from ..wires.comm import Axes, MeshComm
from ..wires.layout import Layout, local_shape, natural, parse_layout, pieces_of, whole
from ..wires.routes import Hop, Route, finish, route
from .statistics import kept_statistics

__all__ = ["OperatorRun", "ParameterRun", "StageLayout", "differentiable"]


@dataclass(frozen=True)
class OperatorRun:
    """How one operator runs on one device.

    Parameters
    ----------
    local : Local
        The operator's loops as cut on this device.
    operands : tuple of Route
        For each operand, the collectives from the layout in which it is stored to the one in which it is read.
    layouts : tuple of Layout
        Layout in which each operand is read.
    back : tuple of Route
        For each operand, the collectives that its gradient takes back to where the operand is stored. Before them, a
        device's gradient is a partial sum along the axes `lacks`.
    lacks : tuple of tuple of int
        For each operand, the axes that cut loops which the operand does not have.
    result : Route
        The collectives from what the loops compute to the planned sharding spec.
    wants : tuple of bool
        Whether each operand gets a gradient.
    again : tuple of bool
        For each operand, whether the copy that the operator reads is larger than the stored shard (it was gathered) and
        needed in the backward pass. Such a copy is not kept; the backward pass gathers it again.
    twin : int
        Position in the stage of an earlier operator that reads the same first operand in the same layout (as q does for
        k and v), or -1. They share one gathered copy, and their gradients of it are added before they are summed over
        devices, which saves collectives.
    """

    local: Local
    operands: tuple[Route, ...]
    layouts: tuple[Layout, ...]
    back: tuple[Route, ...]
    lacks: tuple[Axes, ...]
    result: Route
    wants: tuple[bool, ...]
    again: tuple[bool, ...] = ()
    twin: int = -1

    @property
    def op(self) -> Operator:
        """The operator."""
        return self.local.op


@dataclass(frozen=True)
class ParameterRun:
    """Where a parameter of a stage lives.

    Parameters
    ----------
    name : str
        Name of the parameter.
    full : tuple of int
        Shape of the whole parameter.
    itemsize : int
        Bytes of an element, as planned.
    storage, state : Layout
        Layout of the weights between iterations, and that of gradient and optimiser state.
    dtype : str
        Type in the graph; empty for what is no parameter there.
    trained : bool
        Whether it has a gradient and an optimiser state.
    """

    name: str
    full: tuple[int, ...]
    itemsize: int
    storage: Layout
    state: Layout
    dtype: str = ""
    trained: bool = False


def differentiable(graph: Graph) -> dict[str, bool]:
    """Name of every tensor and result -> whether a gradient flows into it."""
    wants = {t.name: False for t in graph.inputs} | {p.name: p.trainable for p in graph.parameters}
    for op in graph.operators:
        stops = op.attributes.get("fn") in _CONSTANT or op.dtype in ("int64", "int32", "int8", "bool")
        wants[op.name] = not stops and any(wants[name] for name in op.inputs)
    return wants


_CONSTANT = frozenset(
    {
        "nonzero",
        "detach",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "and",
        "or",
        "not",
        "sign",
        "floor",
        "full",
        "arange",
        "one_hot",
        "argmax",
    }
)
"""Functions whose results are constant almost everywhere, or are no numbers with a gradient (indices, truth values)."""


@dataclass(frozen=True)
class StageLayout:
    """One stage of a plan on one device.

    Parameters
    ----------
    number : int
        Number of the stage.
    operators : tuple of OperatorRun
        The stage's operators, in order.
    values : mapping
        Name of a result or a received value -> its layout here.
    received : mapping
        Value of an earlier stage that is read here -> stage that makes it.
    sent : mapping
        Value that is made here -> later stages that read it.
    parameters : mapping
        Name of a parameter, or of a running statistic of a norm -> its layouts.
    mesh : LogicalMesh
        The mesh by whose links the cheapest routes are chosen.
    samples : int
        Samples of a microbatch.
    """

    number: int
    operators: tuple[OperatorRun, ...]
    values: Mapping[str, Layout]
    received: Mapping[str, int]
    sent: Mapping[str, tuple[int, ...]]
    parameters: Mapping[str, ParameterRun]
    mesh: LogicalMesh
    samples: int = 1

    @classmethod
    def of(cls, plan: TrainingPlan, graph: Graph, number: int, comm: MeshComm) -> StageLayout:
        """Work a stage's layout out from a plan.

        Raises
        ------
        InputError
            If the stage cannot be run as planned: a loop cannot be cut, or specs do not follow from the cut loops.
        """
        entry, shape = plan.stages[number], comm.shape
        mesh = plan.mesh(number).view(entry.logical)
        wants = differentiable(graph)
        values: dict[str, Layout] = {}
        received, parameters = dict[str, int](), dict[str, ParameterRun]()
        runs: list[OperatorRun] = []
        first: dict[tuple[str, str, str, tuple[str, str]], int] = {}
        statistics = kept_statistics(plan, graph)
        scatter = bool(plan.planner.options.get("sequence_parallel", False))
        planned = {(t.source, t.target, t.value): t for t in plan.transfers}
        for op in graph.operators[entry.first : entry.last]:
            where = f"plan: stages.{number}.operators.{op.name}"
            how = entry.operators.get(op.name)
            if how is None and shape[0] * shape[1] > 1:
                raise InputError(f"{where}: is not planned; every operator of a stage of several devices needs axes")
            axes = how.axes if how is not None else ("", "")
            local = Local.of(op, comm, axes)
            layouts, routes, back = list[Layout](), list[Route](), list[Route]()
            lacks, needs, again = list[Axes](), list[bool](), list[bool]()
            for k, (name, dims) in enumerate(zip(op.inputs, op.parsed.operands, strict=True)):
                full = op.shape_of(dims)
                layout = natural(dims, axes, shape)
                if how is not None:
                    _same(parse_layout(how.operands[k], len(dims), shape, where), layout, f"{where}.operands.{k}")
                if name in graph.index:
                    if name not in values:
                        source = _stage_of(plan, graph.index[name])
                        transfer = planned.get((source, number, name))
                        spec = transfer.target_spec if transfer is not None else ""
                        values[name] = parse_layout(spec, len(dims), shape, where) if spec else whole(len(dims))
                        received[name] = source
                    have = values[name]
                elif graph.tensors[name] in graph.inputs:
                    have = whole(len(dims))
                else:
                    if name not in parameters:
                        parameters[name] = _parameter(plan, number, graph, name, shape)
                    have = parameters[name].storage
                layouts.append(layout)
                own = {loop for group in dims for loop in group}
                lacks.append(local.axes_of([loop for loop in local.cut if loop not in own]))
                size = _itemsize(graph, name)
                routes.append(route(have, layout, full, size, mesh))
                back.append(_back(layout, have, full, size, mesh, lacks[-1], scatter))
                grown = pieces_of(layout, shape) < pieces_of(have, shape)
                again.append(grown and wants[op.name] and (k in op.saves or name in parameters))
                needs.append(wants[name] and wants[op.name])
            if op.running is not None:
                cut = (layouts[0][1],)
                for name, full in op.running.shapes(op).items():
                    if name in statistics:
                        lies = cut if full else ()
                        parameters[name] = ParameterRun(name, full, DTYPE_BYTES[op.dtype], lies, lies)
            made = [name for name in op.inputs if name in graph.index]
            twin = -1
            if op.heavy and made == [op.inputs[0]]:
                twin = first.setdefault((made[0], op.kind, op.formula, axes), len(runs))
            runs.append(
                OperatorRun(
                    local,
                    tuple(routes),
                    tuple(layouts),
                    tuple(back),
                    tuple(lacks),
                    _finish(local, how, axes, values, mesh, where),
                    tuple(needs),
                    tuple(again),
                    twin if twin < len(runs) else -1,
                )
            )
        sent: dict[str, tuple[int, ...]] = {}
        for later, other in enumerate(plan.stages):
            if later != number:
                reads = {name for op in graph.operators[other.first : other.last] for name in op.inputs}
                for op in graph.operators[entry.first : entry.last]:
                    if op.name in reads:
                        sent[op.name] = (*sent.get(op.name, ()), later)
        return cls(number, tuple(runs), values, received, sent, parameters, mesh, graph.batch)


def _back(
    layout: Layout, have: Layout, full: tuple[int, ...], itemsize: int, mesh: LogicalMesh, parts: Axes, scatter: bool
) -> Route:
    """The route of an operand's gradient.

    Without sequence parallelism, plans count an all-reduce of the gradient before anything else, and the run makes the
    same collectives; with it (`scatter`), a reduce-scatter may sum and cut at once.
    """
    if scatter:
        return route(layout, have, full, itemsize, mesh, parts)
    sums = (Hop("all_reduce", parts),) if parts else ()
    return Route((*sums, *route(layout, have, full, itemsize, mesh).hops))


def _finish(
    local: Local, how: OperatorEntry | None, axes: tuple[str, str], values: dict[str, Layout], mesh: LogicalMesh,
    where: str,
) -> Route:  # fmt: skip
    """The route of an operator's result to its planned layout, which is entered into `values`."""
    op = local.op
    dims = op.parsed.result
    made = natural(dims, axes, mesh.shape)
    local_shape(op.shape, made, mesh.shape, where)
    target = parse_layout(how.result, len(dims), mesh.shape, where) if how is not None else made
    # Statistics (of norms and softmax) are summed inside the operator itself; only results of freely cut loops are
    # partial sums here. Fused attention is both: a softmax inside, and a sum of values over the cut keys.
    reduced = [loop for loop in op.parsed.reduced if op.loop(loop).split == "free" or op.kind == "attention"]
    values[op.name] = target
    return finish(made, local.axes_of(reduced), target, op.shape, DTYPE_BYTES[op.dtype], mesh)


def _itemsize(graph: Graph, name: str) -> int:
    dtype = graph.operators[graph.index[name]].dtype if name in graph.index else graph.tensors[name].dtype
    return DTYPE_BYTES[dtype]


def _parameter(plan: TrainingPlan, number: int, graph: Graph, name: str, shape: tuple[int, int]) -> ParameterRun:
    entry, full = plan.stages[number], graph.tensors[name].shape
    where = f"plan: stages.{number}.parameters.{name}"
    text = entry.parameters.get(name, "R" * len(full))
    storage = parse_layout(text, len(full), shape, where)
    state = parse_layout(entry.optimizer_states.get(name, text), len(full), shape, where)
    for layout in (storage, state):
        local_shape(full, layout, shape, where)
    tensor = graph.tensors[name]
    return ParameterRun(name, full, _itemsize(graph, name), storage, state, tensor.dtype, tensor.trainable)


def _same(given: Layout, follows: Layout, where: str) -> None:
    if given != follows:
        raise InputError(f"{where}: the spec lies as {given}, the axes of the operator say {follows}")


def _stage_of(plan: TrainingPlan, position: int) -> int:
    return next(s for s, stage in enumerate(plan.stages) if stage.first <= position < stage.last)
