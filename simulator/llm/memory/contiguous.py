"""What the systems before vLLM share: every request holds contiguous slots from its first step to its last.

Orca (`orca`) and FasterTransformer (`fastertransformer`) differ in how many slots a request takes and in who joins and
leaves a batch when; both reserve ahead, so neither ever preempts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from ....errors import InputError
from ....profiles.llm.iteration import Iteration
from ..policy.request import LLMRequest
from .buddy import Chunk

__all__ = ["ContiguousConfig", "ContiguousRequest", "ContiguousStep"]


@dataclass(frozen=True, slots=True)
class ContiguousConfig:
    """An engine with contiguous KV memory.

    Parameters
    ----------
    num_slots : int
        Tokens whose keys and values the memory holds.
    max_model_len : int
        Tokens that a sequence may have.
    max_num_seqs : int
        Sequences that may run at once.

    Raises
    ------
    InputError
        On a value below one.
    """

    num_slots: int
    max_model_len: int = 2048  # OPT's, the models of the vLLM paper
    max_num_seqs: int = 256  # vLLM 0.2's default, so that no system is limited more than another

    def __post_init__(self) -> None:
        for name in ("num_slots", "max_model_len", "max_num_seqs"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"{name}: expected an integer >= 1 (got {value!r})")

    def cannot(self, request: LLMRequest) -> str | None:
        """Why a request can never run in any such engine: longer than the model, or more sequences than may run."""
        if request.prompt + request.output > self.max_model_len:
            return (
                f"its prompt of {request.prompt} and output of {request.output} tokens are longer than max_model_len "
                f"{self.max_model_len}"
            )
        if request.best_of > self.max_num_seqs:
            return f"best_of {request.best_of} is above max_num_seqs {self.max_num_seqs}: it would wait for ever"
        return None


@dataclass(slots=True, eq=False)
class ContiguousRequest:
    """A request under way. Its `best_of` sequences share nothing: each has a prompt and a chunk of its own.

    Parameters
    ----------
    request : LLMRequest
        What was asked.
    order : int
        Counts requests in order of arrival.
    length : int
        Tokens that each of its sequences has.
    span : int
        Slots that were reserved for each.
    chunks : list of Chunk
        Where they are; empty while it waits.
    """

    request: LLMRequest
    order: int
    length: int
    span: int = 0
    chunks: list[Chunk] = field(default_factory=list[Chunk])

    @property
    def final(self) -> int:
        """Tokens that each of its sequences will have in the end."""
        return self.request.prompt + self.request.output

    @property
    def slots(self) -> int:
        """Slots that it holds while it runs."""
        return sum(c.size for c in self.chunks) if self.chunks else self.span * self.request.best_of

    @property
    def finished(self) -> bool:
        """Whether it generated all its tokens."""
        return self.length >= self.final


@dataclass(slots=True)
class ContiguousStep:
    """What one scheduling decision asks of the engine.

    Parameters
    ----------
    kind : {"prompt", "decode", "mixed", "idle"}
        Prompts, one token of every running sequence, both in one batch, or nothing to do.
    scheduled : list of ContiguousRequest
        Requests of the batch, in order of arrival.
    new : list of ContiguousRequest
        Those of them whose prompts are processed.
    iteration : Iteration
        The work, padding included.
    """

    kind: Literal["prompt", "decode", "mixed", "idle"] = "idle"
    scheduled: list[ContiguousRequest] = field(default_factory=list[ContiguousRequest])
    new: list[ContiguousRequest] = field(default_factory=list[ContiguousRequest])
    iteration: Iteration = field(default_factory=Iteration)

    @property
    def num_batched_tokens(self) -> int:
        """Tokens in the batch, padding included."""
        return self.iteration.tokens


def sequences(requests: Iterable[ContiguousRequest]) -> int:
    """Sequences of some requests."""
    return sum(r.request.best_of for r in requests)
