"""The scheduler of the vLLM paper (§5.4.5; exact rules of vLLM 0.2.7): prompts first, all-or-nothing preemption.

A step processes either prompts or one token of every running sequence. Groups run first come, first served; when blocks
run out the newest is preempted, by recomputation if it has one sequence, else by swapping.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from ...errors import InputError, RunError
from .blocks import Allocation, BlockManager
from .request import LLMRequest, Sequence, SequenceGroup, Status

__all__ = ["Vllm02Config", "Vllm02Scheduler", "Vllm02Step"]


@dataclass(frozen=True, slots=True)
class Vllm02Config:
    """Engine arguments, by vLLM's own names.

    Parameters
    ----------
    num_gpu_blocks, num_cpu_blocks, block_size, watermark
        The KV memory: see `BlockManager`.
    max_model_len : int
        Tokens that a sequence may have.
    max_num_batched_tokens : int, optional
        Padded prompt tokens in a step; by default ``max(2048, max_model_len)``.
    max_num_seqs : int
        Sequences that may run at once.
    max_paddings : int
        Padding tokens in a prompt step.
    """

    num_gpu_blocks: int
    num_cpu_blocks: int = 0
    block_size: int = 16
    max_model_len: int = 2048
    max_num_batched_tokens: int | None = None
    max_num_seqs: int = 256
    max_paddings: int = 256
    watermark: float = 0.01

    def __post_init__(self) -> None:
        for name in ("max_model_len", "max_num_seqs"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"{name}: expected an integer >= 1 (got {value!r})")
        for name, least in (("max_num_batched_tokens", 1), ("max_paddings", 0)):
            value = getattr(self, name)
            if value is None and name == "max_num_batched_tokens":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(f"{name}: expected an integer >= {least} (got {value!r})")

    @property
    def token_budget(self) -> int:
        """Padded prompt tokens in a step."""
        return self.max_num_batched_tokens or max(2048, self.max_model_len)


Pairs = list[tuple[int, int]]


@dataclass(slots=True)
class Vllm02Step:
    """What one scheduling decision asks of the engine.

    Parameters
    ----------
    kind : {"prompt", "decode", "idle"}
        Prompts are processed, or every running sequence gets a token, or there is nothing to do.
    scheduled : list of SequenceGroup
        The groups, in order.
    num_batched_tokens : int
        Tokens in the batch, a prompt batch's padding included.
    swap_out, swap_in, copies : list of (int, int)
        Blocks to move and to copy before the model runs.
    ignored : list of SequenceGroup
        Requests that can never run.
    preempted : list of SequenceGroup
        Who lost its place, to be recomputed or swapped in again.
    """

    kind: Literal["prompt", "decode", "idle"] = "idle"
    scheduled: list[SequenceGroup] = field(default_factory=list[SequenceGroup])
    num_batched_tokens: int = 0
    swap_out: Pairs = field(default_factory=list[tuple[int, int]])
    swap_in: Pairs = field(default_factory=list[tuple[int, int]])
    copies: Pairs = field(default_factory=list[tuple[int, int]])
    ignored: list[SequenceGroup] = field(default_factory=list[SequenceGroup])
    preempted: list[SequenceGroup] = field(default_factory=list[SequenceGroup])


class Vllm02Scheduler:
    """The policy: knows requests, blocks and steps, and no clock.

    Life cycle: `add` what arrives, `schedule` a step, run it, `complete` it; again.
    """

    def __init__(self, config: Vllm02Config) -> None:
        self.config = config
        self.memory = BlockManager(config.block_size, config.num_gpu_blocks, config.num_cpu_blocks, config.watermark)
        self.waiting: list[SequenceGroup] = []
        self.running: list[SequenceGroup] = []
        self.swapped: list[SequenceGroup] = []
        self._groups = self._sequences = 0

    def add(self, request: LLMRequest) -> SequenceGroup:
        """A request arrives."""
        group = SequenceGroup(request, self._groups, [self._sequence(request.prompt)])
        self._groups += 1
        self.waiting.append(group)
        return group

    def schedule(self) -> Vllm02Step:
        """Decide the next step."""
        if not self.swapped:
            step = self._prompts()
            if step.scheduled or step.ignored:
                return step
        return self._decodes()

    def complete(self, step: Vllm02Step) -> list[SequenceGroup]:
        """Every scheduled sequence got a token, a prompt's its samples; returns the groups that finished."""
        finished: list[SequenceGroup] = []
        for group in step.scheduled:
            for sequence in group.having(Status.RUNNING):
                self._grow(group, sequence)
            if group.finished:
                finished.append(group)
        if finished:
            self.running = [group for group in self.running if not group.finished]
        return finished

    def _sequence(self, length: int, output: int = 0, status: Status = Status.WAITING) -> Sequence:
        self._sequences += 1
        return Sequence(self._sequences - 1, length, output, status)

    def _prompts(self) -> Vllm02Step:
        """Admit waiting prompts, first come, first served, until one does not fit."""
        step, lengths = Vllm02Step("prompt"), list[int]()
        limit = min(self.config.max_model_len, self.config.token_budget)
        running = -1
        while self.waiting:
            group = self.waiting[0]
            (prompt,) = group.having(Status.WAITING)
            fits = Allocation.NEVER if prompt.length > limit else self.memory.can_allocate(group)
            if fits is Allocation.LATER:
                break
            if fits is Allocation.NEVER:
                prompt.status = Status.IGNORED
                step.ignored.append(self.waiting.pop(0))
                continue
            tried = [*lengths, prompt.length]
            padded = len(tried) * max(tried)
            if padded > self.config.token_budget or padded - sum(tried) > self.config.max_paddings:
                break
            if running < 0:
                running = sum(group.max_running for group in self.running)
            if running + group.max_running > self.config.max_num_seqs:
                break
            lengths, running = tried, running + group.max_running
            self.memory.allocate(group)
            prompt.status = Status.RUNNING
            self.running.append(self.waiting.pop(0))
            step.scheduled.append(group)
        step.num_batched_tokens = len(lengths) * max(lengths, default=0)
        if not step.scheduled:
            step.kind = "idle"  # requests that were ignored take no time
        return step

    def _decodes(self) -> Vllm02Step:
        """A token for every running sequence; preempt the newest groups where blocks run out, else swap in."""
        step, kept, preempted = Vllm02Step("decode"), list[SequenceGroup](), False
        queue = deque(sorted(self.running, key=_arrival))
        while queue:
            group = queue.popleft()
            while not self.memory.can_append(group):
                preempted = True
                victim = queue.pop() if queue else group
                self._preempt(victim, step)
                if victim is group:
                    break
            else:
                self._append(group, step)
                kept.append(group)
        self.running = kept
        self.swapped.sort(key=_arrival)
        if not preempted:
            self._swap_in(step)
        step.scheduled = list(self.running)
        if not (step.scheduled or step.swap_in or step.swap_out or step.copies):
            step.kind = "idle"
        return step

    def _swap_in(self, step: Vllm02Step) -> None:
        running = sum(group.max_running for group in self.running) if self.swapped else 0
        while self.swapped and self.memory.can_swap_in(self.swapped[0]):
            group = self.swapped[0]
            if running + group.max_running > self.config.max_num_seqs:
                break
            step.swap_in += self.memory.swap_in(group)
            for sequence in group.having(Status.SWAPPED):
                sequence.status = Status.RUNNING
            self._append(group, step)
            running += group.max_running
            self.running.append(self.swapped.pop(0))

    def _append(self, group: SequenceGroup, step: Vllm02Step) -> None:
        for sequence in group.having(Status.RUNNING):
            step.num_batched_tokens += 1
            pair = self.memory.append(sequence)
            if pair is not None:
                step.copies.append(pair)

    def _preempt(self, group: SequenceGroup, step: Vllm02Step) -> None:
        """Recompute a single sequence from the front of the queue; swap several out, that share blocks."""
        step.preempted.append(group)
        sequences = group.having(Status.RUNNING)
        if group.max_running == 1:
            for sequence in sequences:
                self.memory.free(sequence)
                sequence.status = Status.WAITING
            self.waiting.insert(0, group)
            return
        if not self.memory.can_swap_out(group):
            raise RunError(
                f"request {group.request.id!r}: preempted, but num_cpu_blocks has no room to swap its "
                f"{len(self.memory.held(group))} blocks to; raise num_cpu_blocks"
            )
        step.swap_out += self.memory.swap_out(group)
        for sequence in sequences:
            sequence.status = Status.SWAPPED
        self.swapped.append(group)

    def _grow(self, group: SequenceGroup, sequence: Sequence) -> None:
        """One more token; after the prompt, the samples beside the first share its blocks."""
        samples = group.request.best_of - 1 if len(group.sequences) == 1 and not sequence.output else 0
        children = [self._sequence(sequence.length, sequence.output, Status.RUNNING) for _ in range(samples)]
        for grown in (*children, sequence):
            grown.length += 1
            grown.output += 1
            if grown.output >= group.request.output or grown.length > self.config.max_model_len:
                grown.status = Status.FINISHED
        group.sequences += children
        for child in children:
            if not child.finished:
                self.memory.fork(sequence, child)
        if sequence.finished:
            self.memory.free(sequence)


def _arrival(group: SequenceGroup) -> int:
    return group.order
