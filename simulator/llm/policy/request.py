"""`LLMRequest`, and the sequences that it becomes: what token-by-token schedulers move about."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import Enum
from numbers import Integral, Real
from typing import Any

from ....errors import InputError
from ....reprs import Shown

__all__ = ["LLMRequest", "Sequence", "SequenceGroup", "Status"]


@dataclass(frozen=True, slots=True, repr=False)
class LLMRequest(Shown):
    """One request to a language model.

    Parameters
    ----------
    id : str or int
        Its name, unique in a workload.
    prompt : int
        Prompt tokens, >= 1.
    output : int
        Tokens that each of its sequences generates, >= 1. The engine learns it token by token, a policy never.
    arrival : float
        Seconds (under `drive`, the step).
    best_of : int
        Sequences generated from the prompt: parallel samples, or beams.
    beam : bool
        Beam search instead of independent samples.
    priority : int
        Smaller goes first, where a policy looks at it.
    tokens : tuple of int, optional
        The prompt's token ids, for prefix caching.
    text : hashable, optional
        Of requests without `tokens`: those of one text have the same token at the same position, in prompt and output
        (the turns of one conversation). Without it a request shares no prefix with any other.
    shared_prefix : int, optional
        Which of the prefixes that the provider knows beforehand its prompt begins with (`Vllm02Config.prefixes`);
        policies without such prefixes do not look at it.
    lora : str or int, optional
        The LoRA adapter that it uses, by name; None: the model as it is. An engine must have slots for adapters
        (`V1Config.max_loras`).
    cache_salt : str or int, optional
        Requests share prefixes only with those of the same salt (a tenant's, say); None is a salt of its own.

    Raises
    ------
    InputError
        On a count below one, a time that is not finite or below 0, a flag that is none, a priority that is no integer,
        a negative place, an id, adapter or salt that is neither text nor number, or tokens of another number than
        `prompt`.
    """

    id: str | int
    prompt: int
    output: int
    arrival: float = 0.0
    best_of: int = 1
    beam: bool = False
    priority: int = 0
    tokens: tuple[int, ...] | None = None
    text: Hashable = None
    shared_prefix: int | None = None
    lora: str | int | None = None
    cache_salt: str | int | None = None

    def __post_init__(self) -> None:
        name: Any = self.id
        if not isinstance(name, str | Integral):
            raise InputError(f"request: id: expected text or an integer (got {name!r})")
        for name in ("prompt", "output", "best_of"):
            value = self._integer(name)
            if value is None or value < 1:
                raise InputError(f"request {self.id!r}: {name}: expected an integer >= 1 (got {getattr(self, name)!r})")
        if self._integer("priority") is None:
            raise InputError(f"request {self.id!r}: priority: expected an integer (got {self.priority!r})")
        if not isinstance(self.beam, bool):
            raise InputError(f"request {self.id!r}: beam: expected true or false (got {self.beam!r})")
        place = self.shared_prefix
        if place is not None and (isinstance(place, bool) or not isinstance(place, int) or place < 0):
            raise InputError(f"request {self.id!r}: shared_prefix: expected a place >= 0 or None (got {place!r})")
        for name in ("lora", "cache_salt"):
            said: Any = getattr(self, name)
            if said is not None and (isinstance(said, bool) or not isinstance(said, str | Integral) or said == ""):
                raise InputError(f"request {self.id!r}: {name}: expected text, an integer or None (got {said!r})")
        time: Any = self.arrival
        if isinstance(time, bool) or not isinstance(time, Real) or not 0 <= float(time) < math.inf:
            raise InputError(f"request {self.id!r}: arrival: expected a finite time >= 0 (got {time!r})")
        if self.tokens is not None and len(self.tokens) != self.prompt:
            raise InputError(
                f"request {self.id!r}: tokens: expected as many as the prompt has, {self.prompt} "
                f"(got {len(self.tokens)})"
            )

    @property
    def keys(self) -> Hashable:
        """What tells its KV blocks from others of the same tokens: its adapter and its salt; None if it has neither."""
        return None if self.lora is None and self.cache_salt is None else ("keys", self.lora, self.cache_salt)

    def _integer(self, name: str) -> int | None:
        """A field that must be an integer, one of NumPy's made a plain one; None if it is something else."""
        value: Any = getattr(self, name)
        if type(value) is int:
            return value
        if isinstance(value, bool) or not isinstance(value, Integral):
            return None
        object.__setattr__(self, name, int(value))
        return int(value)


class Status(Enum):
    """Where a sequence is in its life."""

    WAITING = "waiting"
    RUNNING = "running"
    SWAPPED = "swapped"
    FINISHED = "finished"
    IGNORED = "ignored"


@dataclass(slots=True, eq=False)
class Sequence:
    """One token sequence of a request.

    Parameters
    ----------
    number : int
        Unique within a scheduler.
    length : int
        Tokens that it has, prompt included.
    output : int
        Of these, tokens that were generated.
    status : Status
        Where it is.
    """

    number: int
    length: int
    output: int = 0
    status: Status = Status.WAITING

    @property
    def finished(self) -> bool:
        """Whether nothing more comes of it."""
        return self.status is Status.FINISHED or self.status is Status.IGNORED

    def blocks(self, block_size: int) -> int:
        """Logical blocks that its tokens fill, the last one perhaps in part."""
        return -(-self.length // block_size)


@dataclass(slots=True, eq=False)
class SequenceGroup:
    """A request under way: its sequences are scheduled and preempted together (vLLM §5.4.5).

    Parameters
    ----------
    request : LLMRequest
        What was asked.
    order : int
        Counts requests in order of arrival: what first come, first served sorts by.
    sequences : list of Sequence
        One until the prompt is processed, `best_of` thereafter.
    """

    request: LLMRequest
    order: int
    sequences: list[Sequence] = field(default_factory=list[Sequence])

    def having(self, status: Status) -> list[Sequence]:
        """Sequences in a state."""
        if len(self.sequences) == 1:
            return self.sequences[:] if self.sequences[0].status is status else []
        return [s for s in self.sequences if s.status is status]

    @property
    def finished(self) -> bool:
        """Whether every sequence is finished."""
        if len(self.sequences) == 1:
            return self.sequences[0].finished
        return all(s.finished for s in self.sequences)

    @property
    def max_running(self) -> int:
        """Sequences that may run at once in the rest of its life."""
        # vLLM's rule (`get_max_num_running_seqs`): beams always keep their full width, and samples are not forked
        # before the prompt is processed, yet count against max_num_seqs from the start.
        best_of = self.request.best_of
        if self.request.beam or best_of > len(self.sequences):
            return best_of
        return sum(not s.finished for s in self.sequences)
