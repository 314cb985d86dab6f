"""What is known of the strategies of operators, parameters and edges on one mesh: arrays over strategies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..solver.problem import Floats
from .algorithms import Algorithm

__all__ = ["Choices", "Ints", "Storage", "Table"]

Ints = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False, slots=True)
class Choices:
    """Strategies of one operator; those of a follower are numbered as its leader's.

    Parameters
    ----------
    number : int
        A number that is unique on this mesh.
    algorithms : tuple of Algorithm
        The algorithm of each strategy.
    result : ndarray of int
        Spec of the result by number, per strategy.
    operands : tuple of ndarray of int
        Spec of each operand.
    forward, backward_input, backward_weight : ndarray
        Seconds of computing.
    forward_comm, backward_comm : ndarray
        Seconds of the operator's own collectives.
    """

    number: int
    algorithms: tuple[Algorithm, ...]
    result: Ints
    operands: tuple[Ints, ...]
    forward: Floats
    backward_input: Floats
    backward_weight: Floats
    forward_comm: Floats
    backward_comm: Floats


@dataclass(frozen=True, eq=False, slots=True)
class Table:
    """Seconds between the strategies of two nodes, [source, target].

    Parameters
    ----------
    total : ndarray
        Seconds that count in the objective.
    forward, backward : ndarray
        Of one microbatch: bringing values, taking gradients back.
    reduce : ndarray, optional
        Summing gradients once an iteration; `total` holds its share.
    """

    total: Floats
    forward: Floats
    backward: Floats
    reduce: Floats | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Storage:
    """Ways to store a parameter: specs of the weight, and of gradient and optimiser state, by number."""

    number: int
    weight: Ints
    state: Ints
