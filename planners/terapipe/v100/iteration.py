"""Seconds of an iteration of a pipeline of `V100Cell`s: by the recursion of Fig. 2.4, and by the training engine.

All slices go forward through all stages, then all go backward. Some stages receive from another node and some from the
same node, so their times differ, and Eq. 2.5 (which assumes equal stages) would give too much.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ..slicing import Slice
from .cell import NODE, V100Cell
from .kernel import makespan

__all__ = ["iteration_s", "simulated_s", "stage_seconds"]

Floats = npt.NDArray[np.float64]


def iteration_s(cell: V100Cell, slices: Sequence[Slice]) -> float:
    """Seconds of an iteration. The same as `simulated_s`, about a hundred times faster.

    Parameters
    ----------
    cell : V100Cell
        A stage.
    slices : sequence of Slice
        The slices of one replica's batch in the order in which they are fed; lengths in tokens, not in units.
    """
    kinds, forward, backward = _by_kind(cell, slices)
    turned = np.ascontiguousarray(backward[:, ::-1])
    # Backward, the stages come in the opposite order, and meet the same kinds of hops: nodes are full.
    return float(makespan(kinds, forward) + makespan(kinds, turned)) + sum(cell.once_s())


def simulated_s(cell: V100Cell, slices: Sequence[Slice]) -> float:
    """Seconds of an iteration, action by action, by the engine that simulates training plans; it checks
    `iteration_s`."""
    from ....simulator.training import Timing, make_program
    from ....simulator.training.compiled import run_compiled
    from ....simulator.training.timing import prepared

    forward, backward = stage_seconds(cell, slices)
    cuts = [len(piece.tokens) for piece in slices]
    program = make_program("terapipe", cell.layout.pipe, len(slices), slices=cuts)
    reduce_s, update_s = cell.once_s()
    timing = Timing(_padded(forward, cuts), _padded(backward, cuts), reduce_s=reduce_s, update_s=update_s)
    return float(run_compiled(program, prepared(program, timing)).finish.max())


def stage_seconds(cell: V100Cell, slices: Sequence[Slice]) -> tuple[Floats, Floats]:
    """Forward and backward seconds of every slice on every stage, shape (K, slices)."""
    kinds, forward, backward = _by_kind(cell, slices)
    return forward[kinds], backward[kinds[::-1]]


def _by_kind(cell: V100Cell, slices: Sequence[Slice]) -> tuple[npt.NDArray[np.int64], Floats, Floats]:
    """The kind of each stage, and the seconds of each kind: first stage, receives within its node, or from another."""
    columns: dict[Slice, tuple[Floats, Floats]] = {}
    stages = (0, 1, NODE // cell.layout.op)
    for piece in dict.fromkeys(slices):
        if sum(piece.tokens) != cell.tokens:
            raise InputError(f"slices: expected lengths that sum to {cell.tokens} tokens (got {sum(piece.tokens)})")
        length = np.array(piece.tokens)
        passes = cell.seconds(length, np.cumsum(length) - length, piece.samples)
        waits = np.array([cell.receive_s(s, length, piece.samples) for s in stages])
        columns[piece] = (passes[0] + waits, passes[1] + waits)
    stage = np.arange(cell.layout.pipe)
    kinds = np.where(stage == 0, 0, np.where(stage % stages[2] == 0, 2, 1))
    return (
        kinds,
        np.concatenate([columns[piece][0] for piece in slices], axis=1),
        np.concatenate([columns[piece][1] for piece in slices], axis=1),
    )


def _padded(seconds: Floats, cuts: Sequence[int]) -> Floats:
    """Seconds as an array of shape (K, microbatches, most slices of one), padded with 0."""
    found = np.zeros((len(seconds), len(cuts), max(cuts)))
    at = 0
    for m, n in enumerate(cuts):
        found[:, m, :n] = seconds[:, at : at + n]
        at += n
    return found
