"""`SegmentTable`: the least cost of a segment for specs of what enters and leaves it, per price of memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ...solver.problem import Floats
from ..pricing import Pricing
from ..stage_model import StageModel, build_stage
from ..strategies import Ints
from .eliminate import Eliminated, eliminate
from .segments import Segment

__all__ = ["PARTS", "SegmentTable", "segment_table"]

Prices = Sequence[tuple[float, float]]
PARTS = ("microbatch", "backward", "reduce", "update", "state", "activation")
"""What is added up along a chain: seconds of a microbatch, of its backward pass, and once an iteration; bytes."""


@dataclass(eq=False, slots=True)
class SegmentTable:
    """The table of one kind of segment.

    Parameters
    ----------
    model : StageModel
        Model of the first segment of this kind.
    inputs : tuple of int
        Nodes of what enters: values that only this segment reads, then variables of their own.
    own : list of ndarray, shape (prices, k)
        Cost of each of these nodes itself, which the chain counts where it falls due.
    own_parts : list of ndarray, shape (k, PARTS)
        The same costs, divided into parts.
    table : ndarray, shape (prices, *strategies of the inputs, results)
        The least cost for each way of entering and leaving.
    leaves : ndarray of int, shape (results, values)
        Spec of each value that leaves, those of the next segment first.
    """

    model: StageModel
    inputs: tuple[int, ...]
    own: list[Floats]
    own_parts: list[Floats]
    table: Floats
    leaves: Ints
    _eliminated: Eliminated
    _codes: Ints
    _flat: Floats
    _out: tuple[int, ...]
    _choices: dict[tuple[int, ...], list[int]] = field(default_factory=dict[tuple[int, ...], list[int]])
    _parts: dict[tuple[int, ...], tuple[Floats, float]] = field(
        default_factory=dict[tuple[int, ...], tuple[Floats, float]]
    )

    def choice(self, price: int, enters: Sequence[int], leaves: int) -> list[int]:
        """The best strategy of every node for a way of entering and leaving."""
        key = (price, *enters, leaves)
        if key not in self._choices:
            codes = np.broadcast_to(self._codes, self._flat.shape[1:])[tuple(enters)]
            costs = np.where(codes == leaves, self._flat[(price, *enters)], np.inf)
            sizes = [len(self.model.seconds[v]) for v in self._out]
            out = np.unravel_index(int(np.argmin(costs)), sizes) if sizes else ()
            chosen = self._eliminated.choice(price, (*enters, *(int(o) for o in out)))
            leader = self.model.leader
            self._choices[key] = [chosen[leader[v]] for v in range(len(leader))]
        return self._choices[key]

    def parts(self, price: int, enters: Sequence[int], leaves: int) -> tuple[Floats, float]:
        """PARTS of the segment without its inputs' own, and bytes of temporaries."""
        key = (price, *enters, leaves)
        if key not in self._parts:
            self._parts[key] = _parts(self.model, self.inputs, self.choice(price, enters, leaves))
        return self._parts[key]


def segment_table(pricing: Pricing, segment: Segment, prices: Prices) -> SegmentTable:
    """Eliminate what is inside a segment."""
    model = build_stage(pricing, segment.first, segment.last)
    n = len(prices)
    per_state = np.array([p for p, _ in prices])[:, None]
    per_activation = np.array([p for _, p in prices])[:, None]
    inputs = tuple(model.node[name] for name in (*segment.reads, *segment.long_reads))
    own = [model.seconds[v] + per_state * model.state[v] + per_activation * model.activation[v] for v in inputs]
    own_parts = [_node_parts(model, v) for v in inputs]
    unary: dict[int, Floats] = {}
    for v, leader in enumerate(model.leader):
        cost = np.zeros((n, len(model.seconds[v])))
        if v not in inputs:
            cost = model.seconds[v] + per_state * model.state[v] + per_activation * model.activation[v]
        unary[leader] = unary[leader] + cost if leader in unary else cost
    pairs: dict[tuple[int, int], Floats] = {}
    for edge in model.edges:
        a, b = model.leader[edge.source], model.leader[edge.target]
        table = edge.table.total
        if a == b:
            unary[a] = unary[a] + np.diagonal(table)
            continue
        if a > b:
            a, b, table = b, a, table.T
        pairs[a, b] = pairs[a, b] + table if (a, b) in pairs else table
    names = (*segment.makes, *segment.long_makes)
    leaders = [model.leader[model.node[name]] for name in names]
    out = tuple(v for v in dict.fromkeys(leaders) if v not in inputs)
    found = eliminate(unary, pairs, (*inputs, *out), n)
    flat = found.table.reshape(n, *(len(model.seconds[v]) for v in inputs), -1)
    codes, leaves = _leaving(model, names, leaders, inputs, out)
    table = np.empty((*flat.shape[:-1], len(leaves)))
    for y in range(len(leaves)):
        table[..., y] = np.where(codes == y, flat, np.inf).min(axis=-1)
    return SegmentTable(model, inputs, own, own_parts, table, leaves, found, codes, flat, out)


def _leaving(
    model: StageModel, names: Sequence[str], leaders: Sequence[int], inputs: tuple[int, ...], out: tuple[int, ...]
) -> tuple[Ints, Ints]:
    """Which way of leaving each choice of the kept nodes means, [*inputs, out]; and the specs of each way."""
    sizes_in = [len(model.seconds[v]) for v in inputs]
    sizes_out = [len(model.seconds[v]) for v in out]
    n_out = int(np.prod(sizes_out, dtype=np.int64))
    states = dict(zip(out, np.unravel_index(np.arange(n_out), sizes_out) if out else (), strict=True))
    columns: list[Ints] = []
    for name, leader in zip(names, leaders, strict=True):
        if leader in states:
            columns.append(model.specs[name][states[leader]].reshape([1] * len(inputs) + [n_out]))
        else:  # it follows something that enters
            shape = [1] * (len(inputs) + 1)
            shape[inputs.index(leader)] = sizes_in[inputs.index(leader)]
            columns.append(model.specs[name].reshape(shape))
    if not columns:
        return np.zeros([1] * (len(inputs) + 1), np.intp), np.zeros((1, 0), np.intp)
    whole = np.broadcast_arrays(*columns)
    rows = np.stack([c.ravel() for c in whole], axis=1)
    leaves, codes = np.unique(rows, axis=0, return_inverse=True)
    return codes.reshape(whole[0].shape), leaves


def _node_parts(model: StageModel, v: int) -> Floats:
    nothing = np.zeros(len(model.seconds[v]))
    columns = (
        model.forward[v] + model.backward[v],
        model.backward[v],
        nothing,
        model.update[v],
        model.state[v],
        model.activation[v],
    )
    return np.stack(columns, axis=1)


def _parts(model: StageModel, inputs: tuple[int, ...], choice: Sequence[int]) -> tuple[Floats, float]:
    microbatch = backward = reduce = update = state = activation = 0.0
    for v, k in enumerate(choice):
        if v in inputs:
            continue
        backward += float(model.backward[v][k])
        microbatch += float(model.forward[v][k])
        update += float(model.update[v][k])
        state += float(model.state[v][k])
        activation += float(model.activation[v][k])
    for edge in model.edges:
        at = (choice[edge.source], choice[edge.target])
        microbatch += float(edge.table.forward[at])
        backward += float(edge.table.backward[at])
        if edge.table.reduce is not None:
            reduce += float(edge.table.reduce[at])
    again = {g: sum(float(m[choice[v]]) for v, m in values) for g, values in model.again.items()}
    work = max(float(m[choice[v]]) + again.get(model.group[v], 0.0) for v, m in model.work.items())
    return np.array([microbatch + backward, backward, reduce, update, state, activation]), work
