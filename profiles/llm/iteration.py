"""`Iteration`: what one iteration of an LLM engine computes, and `IterationCost`, whoever can say how long it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ...errors import InputError
from ...reprs import Shown

__all__ = ["Iteration", "IterationCost"]


@dataclass(frozen=True, slots=True, repr=False)
class Iteration(Shown):
    """The work of one forward pass.

    Parameters
    ----------
    prefill : tuple of (int, int)
        For each prompt chunk: its new tokens, and the tokens before it whose keys and values it reads.
    decodes : int
        Sequences that generate one token from their cache.
    context : int
        Tokens whose keys and values all the decodes read together, their own new ones included.
    outputs : int
        Sequences that need the output head: the decodes, and chunks that end their prompt.
    """

    prefill: tuple[tuple[int, int], ...] = ()
    decodes: int = 0
    context: int = 0
    outputs: int = 0

    def __post_init__(self) -> None:
        if any(new < 1 or before < 0 for new, before in self.prefill):
            raise InputError(f"iteration: prefill: expected chunks of >= 1 tokens on >= 0 (got {self.prefill})")
        if self.decodes < 0 or self.context < self.decodes:
            raise InputError(f"iteration: {self.decodes} decodes cannot read {self.context} tokens together")

    @property
    def tokens(self) -> int:
        """Tokens that pass through the matrices."""
        return self.decodes + sum(new for new, _ in self.prefill)


class IterationCost(Protocol):
    """How long an iteration takes."""

    def seconds(self, iteration: Iteration) -> float:
        """Seconds from the scheduler's decision to the next one: kernels, communication, launch and host overhead."""
        ...
