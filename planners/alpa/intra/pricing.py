"""`Pricing`: seconds and bytes of the parallel algorithms of operators, and of the edges between them, on one mesh.

Everything is an array over strategies. Operators of repeated layers share their arrays.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ....profiles.graph import CostModel, parameter_bytes
from ....simulator.mesh import LogicalMesh
from ..solver.problem import Floats
from .algorithms import Algorithm, Communication, check_mesh, collectives_of, derive, follow
from .analysis import Analysis
from .forced import batch_forced, weights_cut
from .options import IntraOptions
from .sharding.reshard import check_links, gradient_costs, reshard_costs
from .sharding.specs import SpecSet, spec_set
from .sharding.states import local_states, step_seconds
from .strategies import Choices, Ints, Storage, Table

__all__ = ["Pricing"]


class Pricing:
    """Costs on one mesh under given options; keeps what it has computed.

    Parameters
    ----------
    analysis : Analysis
        Facts about the graph.
    mesh : LogicalMesh
        The logical mesh that it runs on.
    costs : CostModel
        Seconds of computing.
    options : IntraOptions
        Options of the pass.

    Raises
    ------
    InputError
        If the mesh is not two-dimensional or a link carries nothing.
    """

    def __init__(self, analysis: Analysis, mesh: LogicalMesh, costs: CostModel, options: IntraOptions) -> None:
        self.mesh = check_mesh(mesh)
        check_links(mesh)
        self.analysis, self.costs, self.options = analysis, costs, options
        self._specs: dict[str, SpecSet] = {}
        self._known: dict[object, Choices] = {}
        self._storage: dict[object, Storage] = {}
        self._tables: dict[object, Table] = {}
        self._steps: dict[object, tuple[Floats, Floats]] = {}

    # -- strategies ---------------------------------------------------------------------------------------------------

    def specs(self, name: str) -> SpecSet:
        """All specs of a tensor or result."""
        if name not in self._specs:
            graph = self.analysis.graph
            at = graph.index.get(name)
            shape = graph.tensors[name].shape if at is None else graph.operators[at].shape
            self._specs[name] = spec_set(shape, self.mesh.shape)
        return self._specs[name]

    def leading(self, i: int, shared: bool = False) -> Choices:
        """Strategies of an operator that chooses its own, or (`shared`) as its twin does, whose copy it shares."""
        key = ("leads", shared, *self._key(i))
        if key not in self._known:
            op = self.analysis.graph.operators[i]
            scatter = self.options.sequence_parallel
            if self.options.data_parallel:
                found = derive(op, self.mesh, scatter=scatter, repeat=not op.heavy)
            else:
                found = weights_cut(op, self.mesh, self.analysis, scatter=scatter)
            if self.options.force_batch:
                found = batch_forced(op, found, self.mesh, self.analysis)
            self._known[key] = self._choices(i, found, shared)
        return self._known[key]

    def following(self, i: int, operand: int, source: int, ids: Ints) -> Choices:
        """Strategies of an operator that takes over the cut of an operand, whose specs are given per strategy.

        `source` is the number of the choices that made the operand, −1 − dimensions of a stage's input.
        """
        key = ("follows", *self._key(i), operand, source)
        if key not in self._known:
            op = self.analysis.graph.operators[i]
            specs = self.specs(op.inputs[operand]).specs
            numbers: list[int] = ids.tolist()
            own = {s: follow(op, operand, specs[s], self.mesh) for s in set(numbers)}
            self._known[key] = self._choices(i, tuple(own[s] for s in numbers), False)
        return self._known[key]

    def storage(self, name: str) -> Storage:
        """Ways to store a parameter under the ZeRO option."""
        tensor = self.analysis.graph.tensors[name]
        key = (tensor.shape, tensor.trainable)
        if key not in self._storage:
            specs = self.specs(name)
            n = len(specs.specs)
            pairs = [(w, w) for w in range(n)]
            if self.options.zero == 3:
                pairs = [(w, w) for w in range(n) if specs.share[w] == specs.share.min()]
            elif self.options.zero == 2 and tensor.trainable:
                pairs = [(w, s) for w in range(n) for s in self._finer(specs, w)]
            self._storage[key] = Storage(
                len(self._storage), np.array([w for w, _ in pairs]), np.array([s for _, s in pairs])
            )
        return self._storage[key]

    def twin(self, i: int, first: int) -> int:
        """The operator of a stage whose copy of a value this one shares, itself if there is none."""
        twin = self.analysis.twins[i]
        if first <= twin < i and [a.axes for a in self.leading(twin).algorithms] == [
            a.axes for a in self.leading(i, True).algorithms
        ]:
            return twin
        return i

    # -- edges --------------------------------------------------------------------------------------------------------

    def activation_edge(self, i: int, k: int, source: int, ids: Ints, reader: Choices) -> Table:
        """Seconds of bringing an operand to its specs and its gradient back: [strategies of the source, of the reader].

        A copy that is larger than what it is made of is not kept: if the backward pass needs it, it is made again.
        """
        key = ("edge", source, reader.number, k)
        if key not in self._tables:
            name = self.analysis.graph.operators[i].inputs[k]
            forward, backward = self.activation_costs(i, k, name)
            states = self._states(name, reader, k) if self._sums_on_edge(i, k) else reader.operands[k]
            back = backward[np.ix_(states, ids)].T
            there = forward[np.ix_(ids, reader.operands[k])]
            self._tables[key] = Table(there + back, there, back)
        return self._tables[key]

    def activation_costs(self, i: int, k: int, name: str) -> tuple[Floats, Floats]:
        """Seconds of all forward reshardings of an operand [source, target], and of its gradient [target, source]."""
        op, analysis = self.analysis.graph.operators[i], self.analysis
        shape, item = self.specs(name).shape, analysis.itemsize(name)
        there = reshard_costs(shape, item, self.mesh)
        forward = there * self.repeats(i, k, name)
        if not (name in analysis.differentiable and op.name in analysis.differentiable):
            return forward, np.zeros(there.shape)
        if self._sums_on_edge(i, k):
            return forward, gradient_costs(shape, item, self.mesh)[0]
        return forward, there

    def repeats(self, i: int, k: int, name: str) -> Floats:
        """How often an operand is brought from one spec to another per microbatch, [source, target]."""
        analysis = self.analysis
        op, share = analysis.graph.operators[i], self.specs(name).share
        if analysis.repeated(self.options.recompute)[i]:
            return np.full((len(share), len(share)), 2.0)
        needed = op.name in analysis.differentiable and (k in op.saves or name in analysis.parameters)
        return np.where(needed & (share[None, :] > share[:, None]), 2.0, 1.0)

    def parameter_edge(self, i: int, k: int, storage: Storage, reader: Choices) -> Table:
        """Seconds of gathering a weight from its storage and of summing its gradient into it, per microbatch."""
        key = ("parameter", storage.number, reader.number, k)
        if key not in self._tables:
            name = self.analysis.graph.operators[i].inputs[k]
            there = reshard_costs(self.specs(name).shape, self.analysis.itemsize(name), self.mesh)
            forward = there * self.repeats(i, k, name)
            gather = forward[np.ix_(storage.weight, reader.operands[k])]
            total, backward, reduce = gather, np.zeros(gather.shape), None
            if self.trained(i, name):
                sums = gradient_costs(self.specs(name).shape, self.analysis.itemsize(name), self.mesh, True)[0]
                back = sums[np.ix_(self._states(name, reader, k), storage.state)].T
                total = total + self.options.per_iteration * back
                if self.options.reduce_every_microbatch:
                    backward = back
                else:
                    reduce = back
            self._tables[key] = Table(total, gather, backward, reduce)
        return self._tables[key]

    def trained(self, i: int, name: str) -> bool:
        """Whether an operator makes a gradient of a tensor."""
        return name in self.analysis.differentiable and self.analysis.graph.operators[i].name in (
            self.analysis.differentiable
        )

    def update(self, name: str, storage: Storage) -> tuple[Floats, Floats]:
        """Seconds of the optimiser step, and of its sums and gathering the weights, once an iteration, per storage."""
        tensor, specs = self.analysis.graph.tensors[name], self.specs(name)
        if name not in self.analysis.differentiable:
            return np.zeros(len(storage.weight)), np.zeros(len(storage.weight))
        weight, gradient, _ = parameter_bytes(tensor.dtype, self.options.optimizer)
        # Gradient and states are read, states and weights written; a master copy is a state, else weights are read too.
        traffic = tensor.elements * (gradient + (weight if weight == 2 else 2 * weight)) * specs.share
        states, sums = self._step(name)
        traffic = traffic + 2 * states
        bandwidth = self.mesh.mesh.cluster.spec.memory_bandwidth_bytes_per_s
        there = reshard_costs(tensor.shape, self.analysis.itemsize(name), self.mesh, True)
        return traffic[storage.state] / bandwidth, sums[storage.state] + there[storage.state, storage.weight]

    def states(self, name: str) -> Floats:
        """Bytes of a parameter's optimiser state on one device, per spec of the state."""
        return self._step(name)[0]

    def _step(self, name: str) -> tuple[Floats, Floats]:
        """Bytes of a parameter's optimiser state on one device, and seconds of its step's sums, per spec."""
        tensor, specs, optimizer = self.analysis.graph.tensors[name], self.specs(name), self.options.optimizer
        key = (tensor.shape, tensor.dtype)
        if key not in self._steps:
            self._steps[key] = local_states(tensor, specs, optimizer), step_seconds(tensor, specs, self.mesh, optimizer)
        return self._steps[key]

    def _sums_on_edge(self, i: int, k: int) -> bool:
        return self.options.sequence_parallel and self.trained(i, self.analysis.graph.operators[i].inputs[k])

    def _states(self, name: str, reader: Choices, k: int) -> Ints:
        """Rows of `gradient_costs` for an operand's gradient, per strategy."""
        rows = gradient_costs(self.specs(name).shape, self.analysis.itemsize(name), self.mesh)[1]
        live = [a for a in (0, 1) if self.mesh.shape[a] > 1]
        return np.array([rows[a.operands[k], tuple(x for x in a.partial[k] if x in live)] for a in reader.algorithms])

    def _finer(self, specs: SpecSet, w: int) -> list[int]:
        """The finest specs that cut what a spec cuts, and more."""
        mine = specs.specs[w].dims
        finer = [
            s
            for s, spec in enumerate(specs.specs)
            if all(cut[: len(own)] == own for own, cut in zip(mine, spec.dims, strict=True))
        ]
        least = min(specs.share[s] for s in finer)
        return [s for s in finer if specs.share[s] == least]

    def _key(self, i: int) -> tuple[object, ...]:
        """What decides an operator's costs: what it is, what its operands are, whether it is computed again."""
        analysis = self.analysis
        op = analysis.graph.operators[i]
        again = analysis.repeated(self.options.recompute)[i]
        return analysis.kinds[i], again, tuple(self._role(i, name) for name in op.inputs)

    def _role(self, i: int, name: str) -> tuple[str, bool, bool]:
        analysis = self.analysis
        gradient = name in analysis.differentiable and analysis.graph.operators[i].name in analysis.differentiable
        return analysis.dtype(name), name in analysis.parameters, gradient

    def _choices(self, i: int, algorithms: tuple[Algorithm, ...], shared: bool) -> Choices:
        analysis, mesh = self.analysis, self.mesh
        op = analysis.graph.operators[i]
        index = spec_set(op.shape, mesh.shape).index
        sets = [self.specs(name).index for name in op.inputs]
        memo: dict[Algorithm, tuple[float, ...]] = {}
        for a in algorithms:
            if a not in memo:
                memo[a] = self._seconds(i, a, shared)
        rows = np.array([memo[a] for a in algorithms])
        return Choices(
            len(self._known),
            algorithms,
            np.array([index[a.result] for a in algorithms]),
            tuple(np.array([s[a.operands[k]] for a in algorithms]) for k, s in enumerate(sets)),
            *(np.ascontiguousarray(rows[:, c]) for c in range(5)),
        )

    def _seconds(self, i: int, a: Algorithm, shared: bool) -> tuple[float, float, float, float, float]:
        """Forward, backward to inputs, backward to weights; forward and backward collectives."""
        op = self.analysis.graph.operators[i]
        times = self.costs.times(op, a.parts(self.mesh.shape))
        phases = {"forward": 0.0, "backward": 0.0}
        for c in self.own_collectives(i, a, shared):
            phases[c.phase] += self.mesh.seconds(c.collective, c.n_bytes, c.axes)
        needed = any(gradient and not weight for _, weight, gradient in (self._role(i, x) for x in op.inputs))
        back = times.backward_input_s if needed else 0.0  # images have no gradient
        weights = times.backward_weight_s if op.name in self.analysis.differentiable else 0.0
        if self.analysis.repeated(self.options.recompute)[i]:
            back += times.forward_s
            phases["backward"] += phases["forward"]
        return times.forward_s, back, weights, phases["forward"], phases["backward"]

    def own_collectives(self, i: int, a: Algorithm, shared: bool) -> Iterator[Communication]:
        """Collectives of an operator that do not depend on where its operands come from.

        Sums of gradients of parameters are left out: they belong to the parameter. So are those of activations under
        sequence parallelism, where it depends on the spec that the gradient is brought to.
        """
        op = self.analysis.graph.operators[i]
        trained = op.name in self.analysis.differentiable
        found = collectives_of(op, a, self.mesh, [self.analysis.dtype(name) for name in op.inputs])
        for c in found:
            if c.phase == "backward":
                if not trained:
                    continue
                if c.operand >= 0:
                    _, parameter, gradient = self._role(i, op.inputs[c.operand])
                    if parameter or not gradient or self.options.sequence_parallel or (shared and c.operand == 0):
                        continue
            yield c
