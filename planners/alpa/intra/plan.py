"""`IntraPlan`: how the operators of a stage are run on its logical mesh, and what that takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from ....simulator.mesh import Collective, LogicalMesh
from ....simulator.training.plan.entries import OperatorEntry, TrafficOf
from .algorithms import Phase
from .pricing import Pricing
from .sharding.reshard import Resharding, reshard
from .sharding.specs import Axes
from .sharding.states import step_sums
from .stage_model import StageModel

__all__ = ["IntraPlan", "PlannedCollective", "evaluate"]


@dataclass(frozen=True, slots=True)
class PlannedCollective:
    """One collective of a stage, as planned.

    Parameters
    ----------
    phase : {"forward", "backward", "reduce", "update"}
        Once per microbatch; reduce and update once an iteration.
    collective : str
        Name of the collective.
    axes : tuple of int
        Mesh axes along which it communicates.
    n_bytes : float
        Bytes on one device: of its input or its output, whichever is larger.
    seconds : float
        Seconds of one such collective.
    value : str
        What is moved: a result, parameter, or stage input, or its gradient.
    operator : str
        For whom: the operator that reads or makes it.
    """

    phase: Phase
    collective: Collective
    axes: Axes
    n_bytes: float
    seconds: float
    value: str
    operator: str


@dataclass(frozen=True, slots=True)
class IntraPlan:
    """How operators first … last − 1 are run on a logical mesh. Times and bytes are those of one device.

    Parameters
    ----------
    first, last : int
        Operators first … last − 1 of the graph.
    logical : (int, int)
        Shape of the logical mesh.
    operators : mapping of str to OperatorEntry
        Loops that the mesh axes cut, specs of result and operands.
    inputs : mapping of str to str
        Spec in which each value from earlier stages arrives.
    parameters, optimizer_states : mapping of str to str
        Spec that each weight is stored in; that of its gradient and optimiser state where it differs.
    collectives : tuple of PlannedCollective
        In the order of the operators.
    compute_s, communication_s : float
        Seconds of one microbatch, forward and backward.
    forward_s, backward_input_s, backward_weight_s : float
        The same by pass, both kinds together; what is computed again is in `backward_input_s`.
    reduce_s, update_s : float
        Seconds, once an iteration.
    state_bytes, activation_bytes, work_bytes : float
        Weights, gradients and optimiser states; kept for one microbatch; the most that an operator needs beside them,
        with what is computed again.
    objective, bound : float
        What was minimised, seconds; no plan has less.
    status : {"optimal", "feasible"}
        Optimal: the gap is at most 1e-9.
    solver_s : float
        Time that solving took, seconds.
    traffic : mapping of str to tuple of float
        Pass, reduce and update -> seconds for which the collectives of each keep links busy, as in `StageEntry`.
    """

    first: int
    last: int
    logical: tuple[int, int]
    operators: Mapping[str, OperatorEntry]
    inputs: Mapping[str, str]
    parameters: Mapping[str, str]
    optimizer_states: Mapping[str, str]
    collectives: tuple[PlannedCollective, ...]
    compute_s: float
    communication_s: float
    forward_s: float
    backward_input_s: float
    backward_weight_s: float
    reduce_s: float
    update_s: float
    state_bytes: float
    activation_bytes: float
    work_bytes: float
    objective: float
    bound: float
    status: Literal["optimal", "feasible"]
    solver_s: float = field(compare=False, default=0.0)
    traffic: Mapping[TrafficOf, tuple[float, ...]] = field(
        compare=False, default_factory=dict[TrafficOf, tuple[float, ...]]
    )

    @property
    def gap(self) -> float:
        """(objective − bound) / objective; 0 where both are equal."""
        return 0.0 if self.objective <= self.bound else (self.objective - self.bound) / abs(self.objective)

    @property
    def seconds(self) -> float:
        """One microbatch, forward and backward."""
        return self.forward_s + self.backward_input_s + self.backward_weight_s

    @property
    def counts(self) -> dict[str, int]:
        """Planned collectives as ``"forward.all_reduce"`` -> how many per microbatch or iteration."""
        return dict(sorted(Counter(f"{c.phase}.{c.collective}" for c in self.collectives).items()))

    def __str__(self) -> str:
        a, b = self.logical
        return (
            f"operators {self.first} to {self.last} on {a} x {b}: {self.status}, forward {self.forward_s:.4g} s,"
            f" backward {self.backward_input_s + self.backward_weight_s:.4g} s, reduce {self.reduce_s:.4g} s, update"
            f" {self.update_s:.4g} s, {self.state_bytes / 2**30:.3g} GiB state, {self.activation_bytes / 2**30:.3g} GiB"
            " activations per microbatch"
        )


def evaluate(
    pricing: Pricing,
    model: StageModel,
    choice: Sequence[int],
    bound: float,
    status: Literal["optimal", "feasible"],
    solver_s: float = 0.0,
) -> IntraPlan:
    """The plan that a strategy per node makes, every collective by itself."""
    graph, options = pricing.analysis.graph, pricing.options
    found: list[PlannedCollective] = []
    compute = {"forward": 0.0, "backward_input": 0.0, "backward_weight": 0.0}
    operators: dict[str, OperatorEntry] = {}
    update_s = 0.0
    for i in range(model.first, model.last):
        op, choices = graph.operators[i], model.choices[i]
        k = choice[model.node[op.name]]
        for name in compute:
            compute[name] += float(getattr(choices, name)[k])
        a = choices.algorithms[k]
        operators[op.name] = OperatorEntry.of(op, a.axes, str(a.result), list(map(str, a.operands)))
        found += _operand_collectives(pricing, model, choice, i)
        found += _own_collectives(pricing, model, choice, i)
    parameters: dict[str, str] = {}
    states: dict[str, str] = {}
    for name, storage in model.storage.items():
        k = choice[model.node[name]]
        specs = pricing.specs(name).specs
        weight, state = specs[int(storage.weight[k])], specs[int(storage.state[k])]
        parameters[name] = str(weight)
        if state != weight:
            states[name] = str(state)
        if name in pricing.analysis.differentiable:
            update_s += float(pricing.update(name, storage)[0][k])
            shape, item = pricing.specs(name).shape, pricing.analysis.itemsize(name)
            way = reshard(state, weight, shape, item, pricing.mesh, fused=True)
            found += _planned(way, "update", name, name)
            for x in step_sums(graph.tensors[name], state, pricing.mesh, options.optimizer):
                seconds = pricing.mesh.seconds("all_reduce", x.n_bytes, x.axes)
                found.append(PlannedCollective("update", "all_reduce", x.axes, x.n_bytes, seconds, name, name))
    inputs = {
        name: str(pricing.specs(name).specs[choice[at]])
        for name, at in model.node.items()
        if name not in model.storage and graph.index.get(name, model.first) < model.first
    }
    comm = {
        phase: sum(c.seconds for c in found if c.phase == phase)
        for phase in ("forward", "backward", "reduce", "update")
    }
    state, activation, work = memory(model, choice)
    reduce_s = comm["reduce"]
    backward_s = compute["backward_input"] + compute["backward_weight"] + comm["backward"]
    if options.overlap:
        reduce_s = max(0.0, reduce_s - backward_s)
    pairs = (float(e.table.total[choice[e.source], choice[e.target]]) for e in model.edges)
    objective = sum(float(s[choice[v]]) for v, s in enumerate(model.seconds)) + sum(pairs)
    return IntraPlan(
        *(model.first, model.last, pricing.mesh.shape, operators, inputs, parameters, states, tuple(found)),
        compute_s=sum(compute.values()),
        communication_s=comm["forward"] + comm["backward"],
        forward_s=compute["forward"] + comm["forward"],
        backward_input_s=compute["backward_input"] + comm["backward"],
        backward_weight_s=compute["backward_weight"],
        reduce_s=reduce_s,
        update_s=update_s + comm["update"],
        state_bytes=state,
        activation_bytes=activation,
        work_bytes=work,
        objective=objective,
        bound=min(bound, objective),
        status=status,
        solver_s=solver_s,
        traffic=_traffic(found, pricing.mesh),
    )


_PASSES: Mapping[Phase, TrafficOf] = MappingProxyType(
    {"forward": "forward", "backward": "backward_input", "reduce": "reduce", "update": "update"}
)
"""The pass whose seconds hold the collectives of a phase."""


def _traffic(found: Sequence[PlannedCollective], mesh: LogicalMesh) -> dict[TrafficOf, tuple[float, ...]]:
    """Seconds for which the collectives of each pass keep links busy; passes without any are left out."""
    sums: dict[TrafficOf, list[float]] = {}
    for c in found:
        busy = mesh.busy(c.collective, c.n_bytes, c.axes)
        mine = sums.setdefault(_PASSES[c.phase], [0.0] * len(busy))
        sums[_PASSES[c.phase]] = [a + b for a, b in zip(mine, busy, strict=True)]
    return {name: tuple(busy) for name, busy in sums.items() if any(busy)}


def memory(model: StageModel, choice: Sequence[int]) -> tuple[float, float, float]:
    """State, activations per microbatch, and the most that an operator needs beside them, bytes on one device."""
    state = sum(float(m[choice[v]]) for v, m in enumerate(model.state))
    activation = sum(float(m[choice[v]]) for v, m in enumerate(model.activation))
    again = {g: sum(float(m[choice[v]]) for v, m in values) for g, values in model.again.items()}
    work = max(float(m[choice[v]]) + again.get(model.group[v], 0.0) for v, m in model.work.items())
    return state, activation, work


def _own_collectives(pricing: Pricing, model: StageModel, choice: Sequence[int], i: int) -> list[PlannedCollective]:
    op, analysis = pricing.analysis.graph.operators[i], pricing.analysis
    a = model.choices[i].algorithms[choice[model.node[op.name]]]
    shared = op.heavy and pricing.twin(i, model.first) != i
    again = analysis.repeated(pricing.options.recompute)[i]
    found: list[PlannedCollective] = []
    for c in pricing.own_collectives(i, a, shared):
        value = op.name if c.operand < 0 else op.inputs[c.operand]
        seconds = pricing.mesh.seconds(c.collective, c.n_bytes, c.axes)
        found.append(PlannedCollective(c.phase, c.collective, c.axes, c.n_bytes, seconds, value, op.name))
        if again and c.phase == "forward":
            found.append(PlannedCollective("backward", c.collective, c.axes, c.n_bytes, seconds, value, op.name))
    return found


def _operand_collectives(pricing: Pricing, model: StageModel, choice: Sequence[int], i: int) -> list[PlannedCollective]:
    """Bringing the operands of an operator to their specs, and their gradients back."""
    analysis, options, mesh = pricing.analysis, pricing.options, pricing.mesh
    op = analysis.graph.operators[i]
    a = model.choices[i].algorithms[choice[model.node[op.name]]]
    twin = op.heavy and pricing.twin(i, model.first) != i
    found: list[PlannedCollective] = []
    for k, name in enumerate(op.inputs):
        parameter = name in analysis.parameters
        if (twin and k == 0) or not (parameter or name in analysis.graph.index):
            continue
        specs, at = pricing.specs(name), choice[model.node[name]]
        target = a.operands[k]
        source = specs.specs[int((model.storage[name].weight if parameter else model.specs[name])[at])]
        shape, item = specs.shape, analysis.itemsize(name)
        way = reshard(source, target, shape, item, mesh)
        found += _planned(way, "forward", name, op.name)
        if pricing.repeats(i, k, name)[specs.index[source], specs.index[target]] > 1:
            found += _planned(way, "backward", name, op.name)
        if not pricing.trained(i, name):
            continue
        if parameter:
            home = specs.specs[int(model.storage[name].state[at])]
            back = reshard(target, home, shape, item, mesh, a.partial[k], fused=True)
            found += _planned(back, "backward" if options.reduce_every_microbatch else "reduce", name, op.name)
        else:
            sums = a.partial[k] if options.sequence_parallel else ()
            found += _planned(reshard(target, source, shape, item, mesh, sums), "backward", name, op.name)
    return found


def _planned(way: Resharding, phase: Phase, value: str, operator: str) -> list[PlannedCollective]:
    return [
        PlannedCollective(phase, step.kind, step.axes, step.n_bytes, step.seconds, value, operator)
        for step in way.steps
        if step.kind != "slice"
    ]
