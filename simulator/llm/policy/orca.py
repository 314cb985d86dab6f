"""Orca as the vLLM paper runs it (§5.6.1): iteration-level batching over contiguous chunks from a buddy allocator.

Requests join and leave the batch after any iteration, first come, first served; prompts and single tokens share one
iteration (selective batching). A request takes a chunk for all the tokens it may come to have, and keeps it.
"""

from __future__ import annotations

import difflib
from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType

from ....errors import InputError
from ....profiles.llm.iteration import Iteration
from ..memory.buddy import BuddyAllocator, Chunk, chunks_in
from ..memory.contiguous import ContiguousConfig, ContiguousRequest, ContiguousStep, sequences
from .request import LLMRequest

__all__ = ["RESERVES", "OrcaScheduler", "Reserve", "orca_cannot"]

Reserve = Callable[[int, int, int], int]
"""Prompt tokens, output tokens, the model's longest sequence -> slots to reserve."""


def reserve_max(prompt: int, output: int, longest: int) -> int:
    """The model's longest sequence, whatever is asked."""
    return longest


def reserve_pow2(prompt: int, output: int, longest: int) -> int:
    """The output is guessed up to the next power of two: 32 slots for 25 tokens."""
    return min(prompt + (1 << (output - 1).bit_length()), longest)


def reserve_oracle(prompt: int, output: int, longest: int) -> int:
    """The output's length is known: what no real system can do."""
    return prompt + output


RESERVES: Mapping[str, Reserve] = MappingProxyType({"max": reserve_max, "pow2": reserve_pow2, "oracle": reserve_oracle})
"""Name -> how many slots a request takes. The only place where a policy sees an output's length ahead of time."""


def orca_cannot(config: ContiguousConfig, request: LLMRequest, reserve: str) -> str | None:
    """Why a request can never run: as any engine's reasons, or no chunks for it in the empty memory."""
    why = config.cannot(request)
    if why is not None:
        return why
    span = RESERVES[reserve](request.prompt, request.output, config.max_model_len)
    room = chunks_in(config.num_slots, span)
    if room >= request.best_of:
        return None
    chunks = "a contiguous chunk" if request.best_of == 1 else f"{request.best_of} contiguous chunks"
    return f"needs {chunks} for {span} tokens; num_slots {config.num_slots} holds {room}"


class OrcaScheduler:
    """The policy: knows requests, chunks and steps, and no clock. Life cycle: `add`, `schedule`, `complete`.

    Parameters
    ----------
    config : ContiguousConfig
        The engine.
    reserve : {"max", "pow2", "oracle"}
        How many slots a request takes (§5.6.1).

    Raises
    ------
    InputError
        On an unknown reserve.
    """

    def __init__(self, config: ContiguousConfig, reserve: str = "max") -> None:
        if reserve not in RESERVES:
            near = difflib.get_close_matches(str(reserve), RESERVES, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(RESERVES)}"
            raise InputError(f"reserve: unknown reserve {reserve!r}; {hint}")
        self.config = config
        self.memory = BuddyAllocator(config.num_slots)
        self.waiting: deque[ContiguousRequest] = deque()
        self.running: list[ContiguousRequest] = []
        self.reserve = reserve
        self._count = 0

    def add(self, request: LLMRequest) -> ContiguousRequest:
        """A request arrives.

        Raises
        ------
        InputError
            If it can never run (`orca_cannot`).
        """
        if (why := orca_cannot(self.config, request, self.reserve)) is not None:
            raise InputError(f"request {request.id!r}: {why}")
        span = RESERVES[self.reserve](request.prompt, request.output, self.config.max_model_len)
        new = ContiguousRequest(request, self._count, request.prompt, span)
        self._count += 1
        self.waiting.append(new)
        return new

    def schedule(self) -> ContiguousStep:
        """Decide the next step: whoever runs, and from the head of the queue whoever finds a chunk."""
        old, new = self.running, list[ContiguousRequest]()
        running = sequences(old)
        while self.waiting:
            head = self.waiting[0]
            if running + head.request.best_of > self.config.max_num_seqs or not self._allocate(head):
                break  # first come, first served: nobody overtakes the head of the queue
            running += head.request.best_of
            new.append(self.waiting.popleft())
        if not (old or new):
            return ContiguousStep()
        self.running = [*old, *new]
        iteration = Iteration(
            prefill=tuple((r.request.prompt, 0) for r in new for _ in range(r.request.best_of)),
            decodes=sequences(old),
            context=sum(r.length * r.request.best_of for r in old),
            outputs=running,
        )
        kind = "mixed" if old and new else "decode" if old else "prompt"
        return ContiguousStep(kind, list(self.running), new, iteration)

    def complete(self, step: ContiguousStep) -> list[ContiguousRequest]:
        """Every scheduled sequence got a token; returns the requests that finished, which leave the batch."""
        finished: list[ContiguousRequest] = []
        for request in step.scheduled:
            request.length += 1
            if request.finished:
                finished.append(request)
                for chunk in request.chunks:
                    self.memory.free(chunk)
                request.chunks = []
        if finished:
            self.running = [r for r in self.running if not r.finished]
        return finished

    def _allocate(self, request: ContiguousRequest) -> bool:
        """A chunk for every sequence, or none at all."""
        chunks: list[Chunk] = []
        for _ in range(request.request.best_of):
            chunk = self.memory.allocate(request.span)
            if chunk is None:
                for taken in reversed(chunks):  # as if nothing had been taken: also the order of the free chunks
                    self.memory.free(taken)
                return False
            chunks.append(chunk)
        request.chunks = chunks
        return True
