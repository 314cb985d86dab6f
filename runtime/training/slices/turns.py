"""`Turn`: one token slice of one microbatch of a plan; turns are numbered in the order in which they enter stage 0."""

from __future__ import annotations

from dataclasses import dataclass

from ....errors import InputError
from ....profiles.graph import Graph
from ....profiles.graph.token_flow import TokenFlow, token_flow
from ....simulator.training.plan.file import TrainingPlan

__all__ = ["Turn", "checked_tokens", "first_turns", "microbatch_samples", "turns_of"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One token slice of one microbatch.

    Parameters
    ----------
    microbatch, slice : int
        Number of the microbatch, and of the slice in it.
    entry : int
        The entry of the plan's `slices` that describes the microbatch.
    samples : int
        Samples of the microbatch.
    offset, length : int
        Tokens before the slice in the sequence, and tokens of the slice.
    share : float
        The microbatch's share of the samples of an iteration.
    last : bool
        Whether it is the last slice of its microbatch.
    """

    microbatch: int
    slice: int
    entry: int
    samples: int
    offset: int
    length: int
    share: float
    last: bool


def turns_of(plan: TrainingPlan) -> tuple[Turn, ...]:
    """All slices of an iteration, in order."""
    found: list[Turn] = []
    microbatch = 0
    for number, entry in enumerate(plan.slices):
        share = entry.samples / plan.global_batch
        for _ in range(entry.count):
            offset = 0
            for j, length in enumerate(entry.tokens):
                last = j + 1 == len(entry.tokens)
                found.append(Turn(microbatch, j, number, entry.samples, offset, length, share, last))
                offset += length
            microbatch += 1
    return tuple(found)


def first_turns(turns: tuple[Turn, ...]) -> tuple[int, ...]:
    """For each microbatch the number of its first turn."""
    return tuple(number for number, turn in enumerate(turns) if turn.slice == 0)


def microbatch_samples(plan: TrainingPlan) -> tuple[int, ...]:
    """Samples of every microbatch of an iteration, in the order in which they enter the pipeline."""
    if not plan.slices:
        return (plan.microbatch,) * plan.microbatches
    return tuple(entry.samples for entry in plan.slices for _ in range(entry.count))


def checked_tokens(plan: TrainingPlan, graph: Graph) -> TokenFlow:
    """How tokens flow through a graph, after checking that the plan's slices fit it.

    Raises
    ------
    InputError
        If a token's result depends on later tokens, or an entry's slices do not add up to the sequence.
    """
    tokens = token_flow(graph)
    for number, entry in enumerate(plan.slices):
        if sum(entry.tokens) != tokens.length:
            raise InputError(
                f"plan: slices.{number}.tokens: expected lengths that sum to the {tokens.length} tokens of a sample of "
                f"{graph.name!r} (got {sum(entry.tokens)})"
            )
    return tokens
