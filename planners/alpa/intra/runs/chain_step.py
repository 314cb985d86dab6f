"""One step of the chain of segments: its variables, and the tables of its min-plus product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...solver.problem import Floats
from ..strategies import Ints
from .segment_table import SegmentTable

__all__ = ["ChainStep", "Variable", "entered_costs", "states_of", "widened"]


@dataclass(eq=False, slots=True)
class Variable:
    """What crosses cuts: a bundle of values that the next segment reads, or one value or parameter.

    A bundle's states are the ways in which the segment that makes it can be left; others' are all their strategies.
    """

    names: tuple[str, ...]
    size: int
    leaves: Ints | None = None


@dataclass(eq=False, slots=True)
class ChainStep:
    """One product: untouched variables × those read and kept × those read and ended -> those made."""

    table: SegmentTable
    before: list[Variable]
    after: list[Variable]
    untouched: list[Variable]
    kept: list[Variable]
    ended: list[Variable]
    made: list[Variable]
    inner: Floats
    """Cost in the middle of a run: [price, kept, ended, made]."""
    start: Floats
    """Cost at the start of a run, where what enters may have any spec: [price, kept, made]."""
    start_full: Floats
    """The same before it is minimised over what enters: [price, *inputs, made]."""
    read: tuple[tuple[Variable, int], ...]
    """Variables in the order of the table's inputs, and which of a bundle's values each input is."""
    counts: dict[int, list[bool]]
    """Position among the inputs -> for each segment that a run may begin with, whether its own cost falls due."""
    fresh: int
    """How many of the last variables of `before` it is the first to read."""
    ways: Ints
    """State of what is made -> way of leaving the table, −1 for none."""
    entered: Floats | None = None
    """What it started from, own costs included: [price, run, untouched, kept, ended]."""


def states_of(variables: Sequence[Variable]) -> int:
    return math.prod(v.size for v in variables)


def widened(table: Floats, states: list[Ints], made: list[Variable]) -> Floats:
    """Ways of leaving -> one flat axis over the variables that are made."""
    if not made:
        return table
    flat = np.ravel_multi_index(states, [v.size for v in made])
    wide = np.full((*table.shape[:-1], states_of(made)), np.inf)
    wide[..., flat] = table
    return wide


def entered_costs(
    wide: Floats, read: Sequence[tuple[Variable, int]], kept: Sequence[Variable], ended: Sequence[Variable]
) -> Floats:
    """Inputs -> [price, kept, ended, made], with a bundle's values tied together."""
    order = [*kept, *ended]
    index: list[Ints] = []
    for variable, part in read:
        states = np.arange(variable.size) if variable.leaves is None else variable.leaves[:, part]
        shape = [1] * len(order)
        shape[next(i for i, x in enumerate(order) if x is variable)] = len(states)
        index.append(states.reshape(shape))
    picked = wide[(slice(None), *index)] if index else wide
    return np.ascontiguousarray(picked).reshape(len(wide), states_of(kept), states_of(ended), wide.shape[-1])
