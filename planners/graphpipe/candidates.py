"""`candidates_of`: every set of units that may be a stage, priced at every microbatch size and number of devices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..stages.costs import StageCosts
from .kernels import ANY
from .nodes import Register, SeriesNode, series_node
from .tree import Series

__all__ = ["Candidates", "candidates_of"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Candidates:
    """All candidate stages of a tree, with their costs.

    Parameters
    ----------
    root : SeriesNode
        The tree.
    units : list of tuple of int
        Units of each candidate. If branches are equal, the candidate names the first of them and stands for any.
    tps : ndarray, shape (n, n_degrees, n_sizes)
        Seconds per sample; inf if the microbatch cannot be cut over so many devices.
    holds : ndarray of int64, the same shape
        Samples in flight that fit into memory beside weights and temporaries; 0: none, `ANY`: the whole global batch.
    seconds : ndarray, shape (4, n, n_degrees, n_sizes)
        Seconds of a microbatch's forward pass and of its backward pass, each with half of the messages that the stage
        sends; of the messages that arrive; and of what happens once an iteration.
    degrees : ndarray of int64
        Numbers of devices that a stage may have.
    microbatches : tuple of int
        Microbatch sizes, the last axis.
    narrowed : bool
        Whether the limits `MOST_FORKS` or `MOST_COUNTS` left out sets of units.
    """

    root: SeriesNode
    units: list[tuple[int, ...]]
    tps: Floats
    holds: Ints
    seconds: Floats
    degrees: Ints
    microbatches: tuple[int, ...]
    narrowed: bool


def candidates_of(tree: Series, costs: StageCosts, memory_bytes: float) -> Candidates:
    """Price every candidate stage of a tree.

    Parameters
    ----------
    tree : Series
        Over the units of the costs.
    costs : StageCosts
        Seconds and bytes of stages.
    memory_bytes : float
        Bytes that a stage may use on one device.
    """
    register = Register()
    root = series_node(tree, register)
    masks = np.zeros((len(register.sets), costs.n_units), bool)
    for row, units in enumerate(register.sets):
        masks[row, list(units)] = True
    sets = costs.of_sets(masks)
    shape = (len(register.sets), len(costs.devices), len(costs.microbatches))
    tps, holds, seconds = np.full(shape, np.inf), np.zeros(shape, np.int64), np.full((4, *shape), np.inf)
    for g, d in enumerate(costs.devices):
        for s, b in enumerate(costs.microbatches):
            tps[:, g, s] = costs.tps(sets, b, d)
            free = costs.memory(sets, b, d, 0)
            each = (costs.memory(sets, b, d, b) - free) / b
            holds[:, g, s] = _held(memory_bytes - free, each, b, costs.global_batch)
            column = costs.column(b, d)
            if column >= 0:
                moved = 0.0 if costs.overlap else costs.transfer_s(sets, b, d) / 2
                seconds[0, :, g, s] = sets.forward_s[:, column] + moved
                seconds[1, :, g, s] = sets.backward_input_s[:, column] + sets.backward_weight_s[:, column] + moved
                seconds[2, :, g, s] = costs.received_s(sets, b)
                seconds[3, :, g, s] = np.add(*costs.iteration_s(sets, d))
    degrees = np.array(costs.devices, np.int64)
    return Candidates(root, register.sets, tps, holds, seconds, degrees, costs.microbatches, register.narrowed)


def _held(room: Floats, each: Floats, microbatch: int, global_batch: int) -> Ints:
    """Samples, in whole microbatches, that fit into `room` bytes."""
    with np.errstate(divide="ignore", invalid="ignore"):
        # The margin is a few rounding errors: an exact fit must not lose a microbatch to a quotient of 2.9999….
        samples = np.where(each > 0, np.floor(room / each * (1 + 1e-12) / microbatch) * microbatch, np.inf)
    samples = np.where(room < 0, 0.0, samples)
    return np.where(samples >= global_batch, float(ANY), samples).astype(np.int64)
