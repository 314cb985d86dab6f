"""The adapter of the paper's vLLM: groups of samples or beams that share blocks, copy-on-write, swapping."""

from __future__ import annotations

# torch is typed in part.
# pyright: standard
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from .....errors import InputError
from .....simulator.llm.policy.request import LLMRequest, SequenceGroup, Status
from .....simulator.llm.policy.request import Sequence as Row
from .....simulator.llm.policy.vllm02 import Vllm02Scheduler, Vllm02Step
from ..plan import Live, Piece, StepPlan, lay_out
from ..sampling import Sampling, choose
from .base import Outcome, begin, draws, finish, take

__all__ = ["PagedAdapter"]


class PagedAdapter:
    """The paper's vLLM: groups of samples or beams that share blocks, copy-on-write, swapping.

    It is also the scheduler's `Survivors`: which beams go on is what the model's probabilities say.

    Parameters
    ----------
    scheduler : Vllm02Scheduler
        Fresh.
    seed : int
        Seed of sampling, where requests bring none.
    """

    def __init__(self, scheduler: Vllm02Scheduler, seed: int) -> None:
        if scheduler.config.prefixes:
            raise InputError("prefixes: the engine has no reserved prefixes; vllm-v1 finds shared prefixes by itself")
        self.scheduler, self.seed = scheduler, seed
        scheduler.survivors = self
        self._lives: dict[int, Live] = {}  # by the sequence's number
        self._groups: dict[str | int, SequenceGroup] = {}
        self._parents: dict[str | int, list[int]] = {}

    def add(self, request: LLMRequest, tokens: Sequence[int], sampling: Sampling) -> None:
        """See `Adapter`."""
        group = self.scheduler.add(request)
        self._groups[request.id] = group
        self._lives[group.sequences[0].number] = begin(request, 0, tokens, sampling, self.seed)

    def lay_out(self, step: Vllm02Step) -> StepPlan | None:
        """See `Adapter`."""
        for group in (*step.preempted, *step.ignored):
            for row in group.sequences:
                if row.number in self._lives:
                    self._lives[row.number].forget()
        for group in step.ignored:
            self._drop(group)
        if step.kind == "idle":
            return None
        lives, tables, whole = self._lives, self.scheduler.memory.tables, step.kind == "prompt"
        pieces: list[Piece] = []
        for group in step.scheduled:
            for row in group.having(Status.RUNNING):
                start = 0 if whole else row.length - 1
                pieces.append(Piece(lives[row.number], start, row.length - start, tables[row.number], 1))
        return lay_out(
            pieces, self.scheduler.config.block_size, swap_out=step.swap_out, swap_in=step.swap_in, copies=step.copies
        )

    def complete(self, step: Vllm02Step, plan: StepPlan | None, logits: Tensor | None) -> Outcome:
        """See `Adapter`."""
        outcome = Outcome()
        if plan is None or logits is None or not plan.sampled:
            self.scheduler.complete(step)
            return outcome
        rows = {id(piece.live): k for k, piece in enumerate(plan.sampled)}
        self._fork(step, logits, rows, outcome)
        for group in step.scheduled:
            if group.finished:
                self._leave(group, outcome)
            elif all(self._lives[s.number].stopped for s in group.sequences):
                self.scheduler.abort(group)
                self._leave(group, outcome)
        return outcome

    def parents(self, request: LLMRequest, step: int) -> Sequence[int]:
        """Places of the parents of a request's beams: what the step that is being completed found."""
        return self._parents[request.id]

    def abort(self, request: str | int) -> bool:
        """See `Adapter`."""
        group = self._groups.get(request)
        if group is None:
            return False
        self.scheduler.abort(group)
        self._drop(group)
        return True

    def ignored(self, step: Vllm02Step) -> list[str | int]:
        """See `Adapter`."""
        return [group.request.id for group in step.ignored]

    def _fork(self, step: Vllm02Step, logits: Tensor, rows: Mapping[int, int], outcome: Outcome) -> None:
        """Complete the step; every sequence of every group gets its tokens, and new ones their parents' past."""
        plain: list[tuple[Live, int]] = []
        before: list[tuple[SequenceGroup, list[Row], list[tuple[int, int, float]]]] = []
        for group in step.scheduled:
            running = group.having(Status.RUNNING)
            request = group.request
            at = [rows[id(self._lives[s.number])] for s in running]
            if request.beam and request.best_of > 1:
                found = self._beams(request.best_of, running, logits[at])
                self._parents[request.id] = [place for place, _, _ in found]
                before.append((group, list(group.sequences), found))
                continue
            first = self._lives[running[0].number]
            if len(group.sequences) == 1 and request.best_of > 1:
                # A prompt that is sampled several times: the first token of each from the same row.
                for index in range(request.best_of):
                    live = first if not index else begin(request, index, first.tokens, first.sampling, self.seed)
                    plain.append((live, at[0]))
                before.append((group, list(group.sequences), []))
            else:
                plain += [(self._lives[s.number], row) for s, row in zip(running, at, strict=True)]
        chosen: list[int] = []
        if plain:
            lives = [live for live, _ in plain]
            chosen = choose(logits[[row for _, row in plain]], [live.sampling for live in lives], draws(lives))
        self.scheduler.complete(step)
        by_group: dict[str | int, list[Live]] = {}
        for (live, _), token in zip(plain, chosen, strict=True):
            by_group.setdefault(live.request, []).append(live)
            take(live, token, outcome)
        for group, sequences, found in before:
            if found:
                self._follow(group, sequences, found)
            else:
                for row, live in zip(group.sequences, by_group[group.request.id], strict=True):
                    self._lives[row.number] = live

    def _beams(self, width: int, running: Sequence[Row], logits: Tensor) -> list[tuple[int, int, float]]:
        """The best continuations of the beams: (place of the parent, token, score), best first."""
        # In fp64: scores are sums over the whole output, and near ties must fall alike with and without batching.
        chances = torch.log_softmax(logits.double(), -1)
        scores = [self._lives[s.number].score for s in running]
        total = chances + torch.tensor(scores, dtype=chances.dtype, device=chances.device)[:, None]
        best, at = total.flatten().topk(width)
        vocab = logits.shape[1]
        return [(k // vocab, k % vocab, score) for k, score in zip(at.tolist(), best.tolist(), strict=True)]

    def _follow(self, group: SequenceGroup, sequences: list[Row], found: list[tuple[int, int, float]]) -> None:
        """Give each surviving beam the tokens of its parent and its own next one."""
        old = [self._lives.pop(row.number) for row in sequences]
        said = [list(live.tokens) for live in old]
        taken: set[int] = set()
        for row, (place, token, score) in zip(group.sequences, found, strict=True):
            live = old[place]
            if place in taken:
                live = Live(live.request, live.index, [], live.prompt, live.sampling, live.stream)
            taken.add(place)
            live.tokens, live.score = [*said[place], token], score
            live.end = len(live.tokens)
            self._lives[row.number] = live

    def _leave(self, group: SequenceGroup, outcome: Outcome) -> None:
        lives = [self._lives[row.number] for row in group.sequences]
        if group.request.beam:
            lives.sort(key=lambda live: -live.score)
        outcome.finished.append(finish(group.request.id, lives))
        self._drop(group)

    def _drop(self, group: SequenceGroup) -> None:
        for row in group.sequences:
            self._lives.pop(row.number, None)
        self._groups.pop(group.request.id, None)
        self._parents.pop(group.request.id, None)
