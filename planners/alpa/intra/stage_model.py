"""`StageModel`: the nodes and edges of a stage's sharding problem, with what each strategy costs and keeps.

Nodes are, in this order: values that come from earlier stages (any spec), parameters (how they are stored), operators.
Trivial operators and twins share the choice of the node that leads them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ....errors import InputError
from ....profiles.graph import Graph
from ..solver.problem import Floats
from .memory import gradient_bytes, stored_bytes, value_bytes, work_bytes
from .pricing import Pricing
from .strategies import Choices, Ints, Storage, Table

__all__ = ["Edge", "StageModel", "build_stage"]


@dataclass(frozen=True, eq=False, slots=True)
class Edge:
    """Costs between the strategies of two nodes.

    Parameters
    ----------
    source, target : int
        The nodes that it connects.
    table : Table
        Seconds between their strategies.
    """

    source: int
    target: int
    table: Table


@dataclass(eq=False, slots=True)
class StageModel:
    """The sharding problem of operators first … last − 1, node by node.

    Parameters
    ----------
    first, last : int
        Operators.
    names : list of str
        Names of the nodes.
    leader : list of int
        The node whose choice this one shares; itself for most.
    seconds : list of ndarray
        For each node, the seconds of each strategy that count in the objective.
    forward, backward, update : list of ndarray
        Seconds of one microbatch, by pass; once an iteration.
    state, activation : list of ndarray
        Bytes on one device: parameters with gradients and optimiser states, values kept for one microbatch.
    work : dict of int to ndarray
        Node -> bytes of its temporaries.
    again : dict of str to list of (int, ndarray)
        Group that is computed again -> nodes whose values are there while it is.
    group : dict of int to str
        Node -> the group that it belongs to.
    edges : list of Edge
        Resharding, gathering and reduction.
    node : dict of str to int
        Name -> node.
    specs : dict of str to ndarray of int
        Spec of each value of the stage, by number, per strategy of its node.
    number : dict of str to int
        What identifies these specs on the mesh.
    choices : dict of int to Choices
        Operator -> strategies.
    storage : dict of str to Storage
        Parameter -> ways to store it.
    """

    first: int
    last: int
    names: list[str] = field(default_factory=list[str])
    leader: list[int] = field(default_factory=list[int])
    seconds: list[Floats] = field(default_factory=list[Floats])
    forward: list[Floats] = field(default_factory=list[Floats])
    backward: list[Floats] = field(default_factory=list[Floats])
    update: list[Floats] = field(default_factory=list[Floats])
    state: list[Floats] = field(default_factory=list[Floats])
    activation: list[Floats] = field(default_factory=list[Floats])
    work: dict[int, Floats] = field(default_factory=dict[int, Floats])
    again: dict[str, list[tuple[int, Floats]]] = field(default_factory=dict[str, list[tuple[int, Floats]]])
    group: dict[int, str] = field(default_factory=dict[int, str])
    edges: list[Edge] = field(default_factory=list[Edge])
    node: dict[str, int] = field(default_factory=dict[str, int])
    specs: dict[str, Ints] = field(default_factory=dict[str, Ints])
    number: dict[str, int] = field(default_factory=dict[str, int])
    choices: dict[int, Choices] = field(default_factory=dict[int, Choices])
    storage: dict[str, Storage] = field(default_factory=dict[str, Storage])

    def add(self, name: str, seconds: Floats, state: Floats, leader: int = -1) -> int:
        """Add a node that takes no time yet; leader −1: it leads itself."""
        at = len(self.names)
        self.node[name] = at
        self.names.append(name)
        self.leader.append(at if leader < 0 else leader)
        self.seconds.append(seconds)
        nothing = np.zeros(len(seconds))
        self.forward.append(nothing)
        self.backward.append(nothing)
        self.update.append(nothing)
        self.state.append(state)
        self.activation.append(nothing)
        return at


def check_range(graph: Graph, first: int, last: int) -> None:
    """Refuse a range of operators that is none.

    Raises
    ------
    InputError
        If it is empty or leaves the graph.
    """
    if not 0 <= first < last <= len(graph.operators):
        raise InputError(
            f"stage: expected a range of the {len(graph.operators)} operators of graph {graph.name!r}"
            f" (got {first} to {last})"
        )


def build_stage(pricing: Pricing, first: int, last: int) -> StageModel:
    """Nodes and edges of operators first … last − 1."""
    analysis, options = pricing.analysis, pricing.options
    graph = analysis.graph
    check_range(graph, first, last)
    model = StageModel(first, last)
    groups = analysis.groups(options.recompute)
    counted = options.compute == "model"
    reads = {name: None for op in graph.operators[first:last] for name in op.inputs}
    for name in reads:
        if graph.index.get(name, last) < first:
            _add_input(model, pricing, name)
    for name in reads:
        if name in analysis.parameters:
            storage = model.storage[name] = pricing.storage(name)
            step, gather = pricing.update(name, storage)
            seconds = ((step if counted else 0.0) + gather) / options.microbatches
            at = model.add(name, np.asarray(seconds), stored_bytes(pricing, name, storage))
            model.update[at] = step + gather
    for i in range(first, last):
        _add_operator(model, pricing, i, counted)
    kept = analysis.kept(first, last, options.recompute)
    for name in kept.values:
        if name in model.specs:
            at = model.node[name]
            model.activation[at] = model.activation[at] + value_bytes(pricing, name, model.specs[name])
        else:  # an input of the graph, kept as its first reader needs it
            j = next(j for j in range(first, last) if name in graph.operators[j].inputs)  # i may read a view of it
            at, k = model.node[graph.operators[j].name], graph.operators[j].inputs.index(name)
            ids = model.choices[j].operands[k]
            model.activation[at] = model.activation[at] + value_bytes(pricing, name, ids)
    for name, group in kept.again.items():
        if name in model.specs:
            held = (model.node[name], value_bytes(pricing, name, model.specs[name]))
            model.again.setdefault(group, []).append(held)
    for i in range(first, last):
        at = model.node[graph.operators[i].name]
        model.group[at] = groups[i]
        model.work[at] = work_bytes(pricing, i, model.choices[i])
    return model


def _add_input(model: StageModel, pricing: Pricing, name: str) -> None:
    specs = pricing.specs(name).specs
    n = len(specs)
    producer = pricing.analysis.graph.index[name]
    seconds = np.zeros(n)
    if not pricing.options.data_parallel:
        op = pricing.analysis.graph.operators[producer]
        batch = [any(op.loop(x).batch for x in group) for group in op.parsed.result]
        cut = [any(axes and b for axes, b in zip(spec.dims, batch, strict=True)) for spec in specs]
        seconds[cut] = np.inf
    model.add(name, seconds, np.zeros(n))
    model.specs[name] = np.arange(n)
    # Inputs are told apart by what makes them, which is the same in repeated layers.
    model.number[name] = -1 - pricing.analysis.kinds[producer]


def _add_operator(model: StageModel, pricing: Pricing, i: int, counted: bool) -> None:
    analysis = pricing.analysis
    graph = analysis.graph
    op, guide = graph.operators[i], analysis.guides[i]
    twin = pricing.twin(i, model.first) if op.heavy else i
    leader = -1
    if guide >= 0:
        source = op.inputs[guide]
        choices = pricing.following(i, guide, model.number[source], model.specs[source])
        leader = model.leader[model.node[source]]
    else:
        choices = pricing.leading(i, twin != i)
        if twin != i:
            leader = model.leader[model.node[graph.operators[twin].name]]
    seconds = choices.forward_comm + choices.backward_comm
    if counted:
        seconds = seconds + choices.forward + choices.backward_input + choices.backward_weight
    at = model.add(op.name, seconds, gradient_bytes(pricing, i, choices), leader)
    model.forward[at] = choices.forward + choices.forward_comm
    model.backward[at] = choices.backward_input + choices.backward_weight + choices.backward_comm
    model.choices[i] = choices
    model.specs[op.name], model.number[op.name] = choices.result, choices.number
    for k, name in enumerate(op.inputs):
        if name in analysis.parameters:
            table = pricing.parameter_edge(i, k, model.storage[name], choices)
        elif name in graph.index:
            if twin != i and k == 0:
                continue  # the twin brings the value
            table = pricing.activation_edge(i, k, model.number[name], model.specs[name], choices)
        else:
            continue  # inputs of the graph are given as they are needed
        if table.total.any() or (table.reduce is not None and table.reduce.any()):
            model.edges.append(Edge(model.node[name], at, table))
