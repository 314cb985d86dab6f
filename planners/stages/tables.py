"""The tables behind `StageCosts`: seconds of each unit, and which units read, keep and make which values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ...profiles.graph import CostModel, Graph, OperatorTimes, differentiable, parameter_bytes
from ...profiles.graph.memory import saved

__all__ = [
    "kept_table", "listed", "merged", "parameter_table", "result_tables", "touching", "unit_seconds", "unit_work",
]  # fmt: skip

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


def unit_seconds(graph: Graph, unit_of: Ints, n: int, samples: Sequence[int], model: CostModel) -> Floats:
    """Seconds [pass, unit, samples] of the passes forward, backward to inputs and backward to weights.

    Operators that no gradient reaches have no backward pass.
    """
    reached = differentiable(graph)
    seconds = np.zeros((3, n, len(samples)))
    for k, s in enumerate(samples):
        for i, op in enumerate(graph.with_batch(s).operators):
            t: OperatorTimes = model.times(op, {})
            parts = (t.forward_s, *((t.backward_input_s, t.backward_weight_s) if op.name in reached else (0.0, 0.0)))
            seconds[:, unit_of[i], k] += parts
    return seconds


def parameter_table(graph: Graph, unit_of: Ints, n: int, optimizer: str) -> tuple[Bools, Floats]:
    """Which units read each parameter, and its bytes: state, gradient, and traffic of the optimiser's step."""
    reached = differentiable(graph)
    read, sizes = np.zeros((len(graph.parameters), n), bool), np.zeros((3, len(graph.parameters)))
    for p, tensor in enumerate(graph.parameters):
        read[p, unit_of[[i for i, _ in graph.consumers[tensor.name]]]] = True
        if tensor.name not in reached:
            sizes[0, p] = tensor.bytes
            continue
        weight, gradient, state = parameter_bytes(tensor.dtype, optimizer, tensor.shape)
        # The step reads gradient and states, and writes states and weights. 16-bit weights have a master copy among
        # the states, which is read in their place; weights without one are read too.
        moved = gradient + (weight if weight == 2 else 2 * weight) + 2 * state
        sizes[:, p] = tensor.elements * np.array([weight + gradient + state, gradient, moved])
    return merged(read, sizes)


def kept_table(graph: Graph, units: Sequence[Sequence[int]]) -> tuple[Bools, Floats]:
    """Which units keep each value for the backward pass. Operators without a backward pass keep nothing."""
    rows: dict[str, list[int]] = {}
    reached = differentiable(graph)
    for u, group in enumerate(units):
        for i in group:
            if graph.operators[i].name in reached:
                for name in saved(graph, range(i, i + 1)):
                    rows.setdefault(name, []).append(u)
    table = np.zeros((len(rows), len(units)), bool)
    for v, at in enumerate(rows.values()):
        table[v, at] = True
    found, sizes = merged(table, np.array([[graph.bytes_of(name) / graph.batch for name in rows]]))
    return found, sizes[0]


def result_tables(graph: Graph, unit_of: Ints, n: int) -> tuple[Bools, Bools, Floats]:
    """Which unit makes each result that others read, which units read it, and the bytes of it and of its gradient."""
    reached = differentiable(graph)
    makers: list[Bools] = []
    readers: list[Bools] = []
    sizes: list[tuple[float, float]] = []
    for i, op in enumerate(graph.operators):
        at = unit_of[[j for j, _ in graph.consumers[op.name]]]
        if not (at != unit_of[i]).any():
            continue
        makers.append(np.arange(n) == unit_of[i])
        readers.append(np.isin(np.arange(n), at) & ~makers[-1])
        sizes.append((op.bytes / graph.batch, op.bytes / graph.batch if op.name in reached else 0.0))
    shape = (len(makers), n)
    both = np.concatenate([np.array(makers).reshape(shape), np.array(readers).reshape(shape)], axis=1).astype(bool)
    both, total = merged(both, np.array(sizes).reshape(-1, 2).T)
    return both[:, :n], both[:, n:], total


def listed(table: Bools) -> tuple[Ints, Ints]:
    """The table in compressed rows: units of row r are ``units[start[r]:start[r + 1]]``."""
    row, unit = np.nonzero(table)
    return np.searchsorted(row, np.arange(len(table) + 1)).astype(np.int64), unit.astype(np.int64)


def merged(table: Bools, sizes: Floats) -> tuple[Bools, Floats]:
    """Merge equal rows and add up their sizes: sets touch them together, and fewer rows are faster."""
    rows, place = np.unique(table, axis=0, return_inverse=True)
    total = np.zeros((len(sizes), len(rows)))
    for k, each in enumerate(sizes):
        np.add.at(total[k], place.reshape(-1), each)
    return rows, total


def unit_work(graph: Graph, units: Sequence[Sequence[int]]) -> Floats:
    """Largest temporary of each unit, bytes of a sample: an operator's backward pass holds the gradients of its result
    and of all activations that it reads."""
    each = [op.bytes + sum(graph.bytes_of(x) for x in op.inputs if x in graph.index) for op in graph.operators]
    return np.array([max(each[i] for i in group) for group in units]) / graph.batch


def touching(table: Bools, sizes: Floats, after: Ints | None = None) -> Floats:
    """Bytes that the runs of units i … j touch: entry [k, i, j] sums sizes[k] of the rows with a unit in the run.

    With `after`, only rows whose position `after` lies before i count.
    """
    kinds, n = len(sizes), table.shape[1]
    total = np.zeros((kinds, n + 1, n))
    for row, mask in enumerate(table):
        start = 0 if after is None else int(after[row]) + 1
        for at in np.flatnonzero(mask):  # runs that begin after the one before it meet this unit first
            total[:, start, at] += sizes[:, row]
            total[:, at + 1, at] -= sizes[:, row]
            start = int(at) + 1
    return np.triu(total.cumsum(axis=1).cumsum(axis=2)[:, :n])
