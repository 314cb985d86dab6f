"""Stages with microbatches of their own: which rows of a stage's message belong to which microbatch of another.

A message is of the microbatch of the stage that makes it. Where the reader's are larger, it gathers several messages
into one of its own; where they are smaller, it slices one message into several of its own. What grows with the samples
is one dimension of the tensor; samples lie one after another in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ....errors import InputError
from ....profiles.graph import Graph, Operator
from ....simulator.training.plan.file import TrainingPlan
from ..wires.messages import Region

__all__ = ["Part", "check_separable", "is_uneven", "moved", "parts_of", "reference_samples", "rows_of", "unit_samples"]


@dataclass(frozen=True, slots=True)
class Part:
    """What a message has of one microbatch of its reader.

    Parameters
    ----------
    turn : int
        The reader's microbatch.
    ahead : int
        Samples by which the sender's microbatch starts behind the reader's: an index of the message's tensor plus this
        is one of the reader's.
    """

    turn: int
    ahead: int


def parts_of(turn: int, samples: int, of_reader: int) -> Iterator[Part]:
    """Microbatches of a reader that a message has samples of.

    Parameters
    ----------
    turn : int
        The sender's microbatch.
    samples, of_reader : int
        Of a microbatch of the sender and of the reader; one divides the other.
    """
    first = turn * samples
    for mine in range(first // of_reader, (first + samples - 1) // of_reader + 1):
        yield Part(mine, first - mine * of_reader)


def moved(region: Region, dim: int, rows: int, size: int) -> Region:
    """A region in the coordinates of a tensor that starts `rows` further on in one dimension and has `size` of them.

    It is empty, as the dimension's (0, 0), where the two do not meet.
    """
    a, b = region[dim]
    a, b = max(0, a - rows), min(size, b - rows)
    return (*region[:dim], (a, b) if a < b else (0, 0), *region[dim + 1 :])


def rows_of(op: Operator, where: str) -> int:
    """The dimension of a result that grows with the samples.

    Raises
    ------
    InputError
        If there is none, several, or samples do not lie one after another in it.
    """
    grows = {x.name for x in op.loops if x.batch}
    dims = [d for d, group in enumerate(op.parsed.result) if grows & set(group)]
    if len(dims) != 1 or op.parsed.result[dims[0]][0] not in grows:
        raise InputError(
            f"{where}: {op.name!r} of {op.formula!r} is not cut by samples; give both stages microbatches of one size"
        )
    return dims[0]


def is_uneven(plan: TrainingPlan) -> bool:
    """Whether some stage has other microbatches than the plan's."""
    return any(plan.microbatch_of(s) != plan.microbatch for s in range(len(plan.stages)))


def unit_samples(plan: TrainingPlan) -> int:
    """The largest number of samples of which every stage's microbatch is a multiple."""
    return math.gcd(*(plan.microbatch_of(s) for s in range(len(plan.stages))))


def reference_samples(plan: TrainingPlan) -> tuple[int, ...]:
    """Microbatches in which one device runs the same iteration: what every stage's are made of."""
    unit = unit_samples(plan)
    return (unit,) * (plan.global_batch // unit)


def check_separable(graph: Graph) -> None:
    """Refuse a graph whose samples see each other: microbatches of another size would make it another computation.

    Raises
    ------
    InputError
        Names the operator.
    """
    for op in graph.operators:
        grows = {x.name: x.split for x in op.loops if x.batch}
        seen = set(grows) & set(op.parsed.reduced) or any(split != "free" for split in grows.values())
        mean = op is graph.operators[-1] and op.kind == "loss" and op.attributes.get("reduction", "mean") == "mean"
        if seen and not mean:
            raise InputError(
                f"plan: stages: microbatches of different sizes: {op.name!r} ({op.kind}) brings the samples of a "
                "microbatch together, and would give another result; give all stages microbatches of one size"
            )
