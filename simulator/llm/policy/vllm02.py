"""The scheduler of vLLM 0.2.7, released after the paper: prompts first, all-or-nothing preemption (§5.4.5).

A step processes either prompts or one token of every running sequence; the paper's own engine (`vllm_paper`) has both
in one step. Groups run first come, first served; when blocks run out the newest is preempted, by recomputation if it
has one sequence, else by swapping.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence as Places
from typing import TYPE_CHECKING

from ....errors import InputError, RunError
from ..memory.blocks import Allocation, BlockManager
from .request import LLMRequest, Sequence, SequenceGroup, Status
from .vllm02_state import PagedConfig, Vllm02Config, Vllm02Step

if TYPE_CHECKING:
    from ..decoding.genealogy import Survivors

__all__ = ["PagedConfig", "Vllm02Config", "Vllm02Scheduler", "Vllm02Step"]


class Vllm02Scheduler:
    """The policy: knows requests, blocks and steps, and no clock.

    Life cycle: `add` arriving requests; then, again and again, `schedule` a step, run it, and `complete` it.

    Parameters
    ----------
    config : PagedConfig
        Engine arguments; of this scheduler a `Vllm02Config`.
    survivors : Survivors, optional
        Decides from which beam each beam of a step continues; without it every beam continues itself.
    """

    def __init__(self, config: PagedConfig, survivors: Survivors | None = None) -> None:
        self.config = config
        self.survivors = survivors
        self.memory = BlockManager(
            config.block_size, config.num_gpu_blocks, config.num_cpu_blocks, config.watermark, config.prefixes
        )
        self.waiting: list[SequenceGroup] = []
        self.running: list[SequenceGroup] = []
        self.swapped: list[SequenceGroup] = []
        self._groups = self._sequences = 0

    def add(self, request: LLMRequest) -> SequenceGroup:
        """A request arrives.

        Raises
        ------
        InputError
            On a shared prefix that is not there, or that is the whole prompt.
        """
        if (why := self.config.prefix_cannot(request)) is not None:
            raise InputError(f"request {request.id!r}: {why}")
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
        """Give every scheduled sequence a token, and a new prompt its samples; returns the groups that finished."""
        # Beams first: children are forked from parents as they were when the step began.
        finished: list[SequenceGroup] = []
        for group in step.scheduled:
            request = group.request
            if request.beam and request.best_of > 1 and len(group.sequences) > 1 and self.survivors is not None:
                self._survive(group, self.survivors.parents(request, group.sequences[0].output))
            for sequence in group.having(Status.RUNNING):
                self._grow(group, sequence)
            if group.finished:
                finished.append(group)
        if finished:
            self.running = [group for group in self.running if not group.finished]
        return finished

    def abort(self, group: SequenceGroup) -> None:
        """Remove a request before its end: its blocks, on the device or swapped out, are freed."""
        for queue in (self.waiting, self.running, self.swapped):
            if group in queue:
                queue.remove(group)
        for sequence in group.sequences:
            if not sequence.finished:
                self.memory.free(sequence)
                sequence.status = Status.FINISHED

    def _sequence(self, length: int, output: int = 0, status: Status = Status.WAITING) -> Sequence:
        self._sequences += 1
        return Sequence(self._sequences - 1, length, output, status)

    def _prompts(self) -> Vllm02Step:
        """A step of prompts alone."""
        step = Vllm02Step("prompt")
        lengths = self._admit(step)
        step.num_batched_tokens = len(lengths) * max(lengths, default=0)
        if not step.scheduled:
            step.kind = "idle"  # requests that were ignored take no time
        return step

    def _takes(self, step: Vllm02Step, lengths: list[int]) -> bool:
        """Whether prompts of these lengths fit a step."""
        assert isinstance(self.config, Vllm02Config)
        padded = len(lengths) * max(lengths)
        return padded <= self.config.token_budget and padded - sum(lengths) <= self.config.max_paddings

    def _admit(self, step: Vllm02Step) -> list[int]:
        """Let waiting prompts join a step, first come, first served, until one does not fit; the tokens of each."""
        lengths = list[int]()
        # The checks come in the order of vLLM 0.2.7: a request that can never run is dropped even where the budget is
        # used up, and the first one that does not fit ends the loop.
        limit = min(self.config.max_model_len, self.config.token_budget)
        running = -1  # counted only when a prompt gets that far
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
            tried = [*lengths, prompt.length - self.config.prefix_tokens(group.request)]
            if not self._takes(step, tried):
                break
            if running < 0:
                running = sum(group.max_running for group in self.running)
            if running + group.max_running > self.config.max_num_seqs:
                break
            lengths, running = tried, running + group.max_running
            pair = self.memory.allocate(group)
            if pair is not None:
                step.copies.append(pair)
            prompt.status = Status.RUNNING
            self.running.append(self.waiting.pop(0))
            step.scheduled.append(group)
        step.prompts = len(lengths)
        return lengths

    def _decodes(self) -> Vllm02Step:
        """A token for every running sequence; preempt the newest groups where blocks run out, else swap in."""
        step, kept, preempted = Vllm02Step("decode"), list[SequenceGroup](), False
        queue = deque(sorted(self.running, key=_arrival))  # swapped-in groups stand at the end, whenever they arrived
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
        """Recompute a single sequence from the front of the queue; swap several out, that share blocks (or one, if so
        configured)."""
        step.preempted.append(group)
        sequences = group.having(Status.RUNNING)
        if group.max_running == 1 and self.config.preemption_mode != "swap":
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

    def _survive(self, group: SequenceGroup, parents: Places[int]) -> None:
        """Let the beams be children of the beams at these places: fork all but the first, free the dead."""
        beams, new = group.sequences, list[Sequence]()
        if tuple(parents) == tuple(range(len(beams))):
            return  # the usual case: everyone goes on
        if len(parents) != len(beams) or not all(0 <= place < len(beams) for place in parents):
            raise RunError(
                f"request {group.request.id!r}: survivors: expected {len(beams)} places of parents below {len(beams)} "
                f"(got {tuple(parents)})"
            )
        placed: set[int] = set()
        for place in parents:
            beam = beams[place]
            if place in placed:
                child = self._sequence(beam.length, beam.output, Status.RUNNING)
                self.memory.fork(beam, child)
                beam = child
            placed.add(place)
            new.append(beam)
        for place, beam in enumerate(beams):
            if place not in placed:
                beam.status = Status.FINISHED
                self.memory.free(beam)
        group.sequences = new

    def _grow(self, group: SequenceGroup, sequence: Sequence) -> None:
        """One more token; after the prompt, the samples beside the first share its blocks."""
        samples = group.request.best_of - 1 if len(group.sequences) == 1 and not sequence.output else 0
        children = [self._sequence(sequence.length, sequence.output, Status.RUNNING) for _ in range(samples)]
        for grown in (*children, sequence):
            grown.length += 1
            grown.output += 1
            if grown.output >= group.request.output or grown.length > self.config.max_model_len:  # 0.2 stops beyond it
                grown.status = Status.FINISHED
        group.sequences += children
        for child in children:
            if not child.finished:
                self.memory.fork(sequence, child)
        if sequence.finished:
            self.memory.free(sequence)


def _arrival(group: SequenceGroup) -> int:
    return group.order
