"""Which rows of a stage's message belong to which microbatch of another stage, where microbatch sizes differ.

A message carries one microbatch of the stage that sends it. A reader with larger microbatches gathers several messages
into one of its own; a reader with smaller ones slices a message into several. Exactly one dimension of the tensor grows
with the samples, and samples lie one after another in it.
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
    """The overlap of a message with one microbatch of its reader.

    Parameters
    ----------
    turn : int
        The reader's microbatch.
    ahead : int
        Samples by which the sender's microbatch starts after the reader's: a sample's index in the message plus `ahead`
        is its index in the reader's microbatch. Negative where the reader's starts later.
    """

    turn: int
    ahead: int


def parts_of(turn: int, samples: int, of_reader: int) -> Iterator[Part]:
    """Yield the overlap of a message with each of the reader's microbatches.

    Parameters
    ----------
    turn : int
        The sender's microbatch.
    samples, of_reader : int
        Samples of a microbatch of the sender, and of the reader; one divides the other.
    """
    first = turn * samples
    for mine in range(first // of_reader, (first + samples - 1) // of_reader + 1):
        yield Part(mine, first - mine * of_reader)


def moved(region: Region, dim: int, rows: int, size: int) -> Region:
    """Translate a region into another tensor, which starts `rows` later in dimension `dim` and is `size` long there.

    Where the region does not meet that tensor, the dimension becomes (0, 0): empty.
    """
    a, b = region[dim]
    a, b = max(0, a - rows), min(size, b - rows)
    return (*region[:dim], (a, b) if a < b else (0, 0), *region[dim + 1 :])


def rows_of(op: Operator, where: str) -> int:
    """The dimension of an operator's result that grows with the samples.

    Raises
    ------
    InputError
        If there is no such dimension, there are several, or samples do not lie one after another in it.
    """
    grows = {x.name for x in op.loops if x.batch}
    dims = [d for d, group in enumerate(op.parsed.result) if grows & set(group)]
    if len(dims) != 1 or op.parsed.result[dims[0]][0] not in grows:
        raise InputError(
            f"{where}: {op.name!r} of {op.formula!r} is not cut by samples; give both stages microbatches of one size"
        )
    return dims[0]


def is_uneven(plan: TrainingPlan) -> bool:
    """Whether some stage has another microbatch size than the plan's."""
    return any(plan.microbatch_of(s) != plan.microbatch for s in range(len(plan.stages)))


def unit_samples(plan: TrainingPlan) -> int:
    """The largest number of samples of which every stage's microbatch is a multiple."""
    return math.gcd(*(plan.microbatch_of(s) for s in range(len(plan.stages))))


def reference_samples(plan: TrainingPlan) -> tuple[int, ...]:
    """Microbatch sizes with which a single device runs the same iteration: pieces that divide every stage's."""
    unit = unit_samples(plan)
    return (unit,) * (plan.global_batch // unit)


def check_separable(graph: Graph) -> None:
    """Refuse a graph whose samples interact (batch norm): with another microbatch size it computes something else.

    Raises
    ------
    InputError
        If an operator combines samples; the message names it.
    """
    for op in graph.operators:
        grows = {x.name: x.split for x in op.loops if x.batch}
        seen = set(grows) & set(op.parsed.reduced) or any(split != "free" for split in grows.values())
        # A mean loss may combine samples: each microbatch's counts by its share of the samples, so the sum stays.
        mean = op is graph.operators[-1] and op.kind == "loss" and op.attributes.get("reduction", "mean") == "mean"
        if seen and not mean:
            raise InputError(
                f"plan: stages: microbatches of different sizes: {op.name!r} ({op.kind}) brings the samples of a "
                "microbatch together, and would give another result; give all stages microbatches of one size"
            )
