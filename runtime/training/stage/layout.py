"""`StageLayout`: everything about one stage that is known before it runs: layouts, routes, who needs a gradient."""

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

__all__ = ["OperatorRun", "ParameterRun", "StageLayout", "differentiable"]


@dataclass(frozen=True)
class OperatorRun:
    """How one operator runs on one device.

    Parameters
    ----------
    local : Local
        Its loops here.
    operands : tuple of Route
        From where each operand lies to how the operator reads it.
    layouts : tuple of Layout
        How each operand is read.
    back : tuple of Route
        The way of each operand's gradient, which is a part of a sum along axes that cut loops that the operand lacks.
    lacks : tuple of tuple of int
        Those axes, for each operand.
    result : Route
        From what the loops make to the planned spec.
    wants : tuple of bool
        Whether each operand gets a gradient.
    again : tuple of bool
        Whether each operand's copy is larger than what it is made of and needed by the backward pass: it is not kept
        but made again.
    twin : int
        Operator before it, by position in the stage, that reads the same first operand alike (as q does for k and v):
        they share one copy, and the gradients that they make of it are added before they are summed over devices.
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
        Of the parameter.
    full : tuple of int
        Whole shape.
    itemsize : int
        Bytes of an element, as planned.
    storage, state : Layout
        Of the weights between iterations; of gradient and optimiser state.
    """

    name: str
    full: tuple[int, ...]
    itemsize: int
    storage: Layout
    state: Layout


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
"""Functions whose gradient is nothing."""


@dataclass(frozen=True)
class StageLayout:
    """One stage of a plan on one device.

    Parameters
    ----------
    number : int
        Of the stage.
    operators : tuple of OperatorRun
        In order.
    values : mapping
        Name of a result or a received value -> how it lies here.
    received : mapping
        Value of an earlier stage that is read here -> stage that makes it.
    sent : mapping
        Value that is made here -> later stages that read it.
    parameters : mapping
        Name -> where it lives.
    mesh : LogicalMesh
        Whose links routes reckon with.
    """

    number: int
    operators: tuple[OperatorRun, ...]
    values: Mapping[str, Layout]
    received: Mapping[str, int]
    sent: Mapping[str, tuple[int, ...]]
    parameters: Mapping[str, ParameterRun]
    mesh: LogicalMesh

    @classmethod
    def of(cls, plan: TrainingPlan, graph: Graph, number: int, comm: MeshComm) -> StageLayout:
        """Read a stage of a plan.

        Raises
        ------
        InputError
            If it cannot be run so: a loop that cannot be cut, specs that do not follow from the loops.
        """
        entry, shape = plan.stages[number], comm.shape
        mesh = plan.mesh(number).view(entry.logical)
        wants = differentiable(graph)
        values: dict[str, Layout] = {}
        received, parameters = dict[str, int](), dict[str, ParameterRun]()
        runs: list[OperatorRun] = []
        first: dict[tuple[str, str, str, tuple[str, str]], int] = {}
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
        return cls(number, tuple(runs), values, received, sent, parameters, mesh)


def _back(
    layout: Layout, have: Layout, full: tuple[int, ...], itemsize: int, mesh: LogicalMesh, parts: Axes, scatter: bool
) -> Route:
    """The way of an operand's gradient: added up first, unless sums may be scattered on the way."""
    if scatter:
        return route(layout, have, full, itemsize, mesh, parts)
    sums = (Hop("all_reduce", parts),) if parts else ()
    return Route((*sums, *route(layout, have, full, itemsize, mesh).hops))


def _finish(
    local: Local, how: OperatorEntry | None, axes: tuple[str, str], values: dict[str, Layout], mesh: LogicalMesh,
    where: str,
) -> Route:  # fmt: skip
    """The route of an operator's result; notes its layout."""
    op = local.op
    dims = op.parsed.result
    made = natural(dims, axes, mesh.shape)
    local_shape(op.shape, made, mesh.shape, where)
    target = parse_layout(how.result, len(dims), mesh.shape, where) if how is not None else made
    # What a statistic loop reduces is added up inside; fused attention's values are a sum over the keys besides.
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
    return ParameterRun(name, full, _itemsize(graph, name), storage, state)


def _same(given: Layout, follows: Layout, where: str) -> None:
    if given != follows:
        raise InputError(f"{where}: the spec lies as {given}, the axes of the operator say {follows}")


def _stage_of(plan: TrainingPlan, position: int) -> int:
    return next(s for s, stage in enumerate(plan.stages) if stage.first <= position < stage.last)
