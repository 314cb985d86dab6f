"""FasterTransformer behind a batcher like Triton's, as the vLLM paper runs it (§5.6.1): static, padded batches.

When the engine is free, the oldest waiting requests, as many as the memory has room for at the model's longest
sequence, start together and end together: nobody joins, nobody leaves, and all run to the longest output.
"""

from __future__ import annotations

from collections import deque

from ....errors import InputError
from ....profiles.llm.iteration import Iteration
from ..memory.contiguous import ContiguousConfig, ContiguousRequest, ContiguousStep, sequences
from .request import LLMRequest

__all__ = ["FasterTransformerScheduler", "fastertransformer_cannot"]


def batch_rows(config: ContiguousConfig) -> int:
    """Rows of a batch: as many sequences of the model's longest length as the memory has room for."""
    return min(config.num_slots // config.max_model_len, config.max_num_seqs)


def fastertransformer_cannot(config: ContiguousConfig, request: LLMRequest) -> str | None:
    """Why a request can never run: as any engine's reasons, or more sequences than a batch has rows."""
    why = config.cannot(request)
    if why is None and request.best_of > (rows := batch_rows(config)):
        return f"best_of {request.best_of} is more than a batch of {rows}, all that num_slots {config.num_slots} holds"
    return why


class FasterTransformerScheduler:
    """The policy: knows requests, batches and steps, and no clock. Life cycle: `add`, `schedule`, `complete`.

    The batcher waits for nobody (Triton's ``max_queue_delay`` of 0). Memory is one tensor of `max_batch_size` rows of
    `max_model_len` slots.

    Parameters
    ----------
    config : ContiguousConfig
        The engine.

    Raises
    ------
    InputError
        If the memory has no room for one sequence of the model's longest.
    """

    def __init__(self, config: ContiguousConfig) -> None:
        self.config = config
        self.max_batch_size = batch_rows(config)
        if not self.max_batch_size:
            raise InputError(
                f"num_slots: {config.num_slots} has no room for one sequence of max_model_len {config.max_model_len}"
            )
        self.waiting: deque[ContiguousRequest] = deque()
        self.running: list[ContiguousRequest] = []
        self._count = self._generated = 0

    def add(self, request: LLMRequest) -> ContiguousRequest:
        """A request arrives.

        Raises
        ------
        InputError
            If it can never run (`fastertransformer_cannot`).
        """
        if (why := fastertransformer_cannot(self.config, request)) is not None:
            raise InputError(f"request {request.id!r}: {why}")
        new = ContiguousRequest(request, self._count, request.prompt, self.config.max_model_len)
        self._count += 1
        self.waiting.append(new)
        return new

    def schedule(self) -> ContiguousStep:
        """Decide the next step: the batch goes on, or the oldest waiting requests become one."""
        if self.running:
            rows = sequences(self.running)
            context = rows * (max(r.request.prompt for r in self.running) + self._generated)
            return ContiguousStep(
                "decode", list(self.running), [], Iteration(decodes=rows, context=context, outputs=rows)
            )
        rows = 0
        while self.waiting and rows + self.waiting[0].request.best_of <= self.max_batch_size:
            rows += self.waiting[0].request.best_of
            self.running.append(self.waiting.popleft())
        if not rows:
            return ContiguousStep()
        self._generated = 0
        padded = max(r.request.prompt for r in self.running)
        iteration = Iteration(prefill=((padded, 0),) * rows, outputs=rows)
        return ContiguousStep("prompt", list(self.running), list(self.running), iteration)

    def complete(self, step: ContiguousStep) -> list[ContiguousRequest]:
        """Every row got a token, of use or not; returns the whole batch once its longest output is done."""
        self._generated += 1
        for request in step.scheduled:
            if not request.finished:
                request.length += 1
        if not step.scheduled or not all(r.finished for r in step.scheduled):
            return []
        self.running = []
        return step.scheduled
