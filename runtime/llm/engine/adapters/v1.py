"""The adapter of vLLM V1 and Sarathi: one sequence per request, pieces of prompts and decodes in one batch."""

from __future__ import annotations

# torch is typed in part.
# pyright: standard
from collections.abc import Sequence

from torch import Tensor

from .....simulator.llm.policy.request import LLMRequest
from .....simulator.llm.policy.vllm_v1 import V1Request, V1Scheduler, V1Step
from ..plan import Live, Piece, StepPlan, lay_out
from ..sampling import Sampling, choose
from .base import Outcome, begin, draws, finish, take

__all__ = ["V1Adapter"]


class V1Adapter:
    """Today's vLLM: one sequence per request, pieces of prompts and decodes in one batch.

    Parameters
    ----------
    scheduler : V1Scheduler
        Fresh.
    seed : int
        Seed of sampling, where requests bring none.
    """

    def __init__(self, scheduler: V1Scheduler, seed: int) -> None:
        self.scheduler, self.seed = scheduler, seed
        self._lives: dict[V1Request, Live] = {}
        self._by_id: dict[str | int, V1Request] = {}

    def add(self, request: LLMRequest, tokens: Sequence[int], sampling: Sampling) -> None:
        """See `Adapter`."""
        new = self.scheduler.add(request)
        self._lives[new] = begin(request, 0, tokens, sampling, self.seed)
        self._by_id[request.id] = new

    def lay_out(self, step: V1Step) -> StepPlan | None:
        """See `Adapter`."""
        for request in step.preempted:
            self._lives[request].forget()
        if not step.scheduled:
            return None
        lives, samples = self._lives, set(step.samples)
        pieces = [
            Piece(lives[r], r.computed - n, n, r.blocks, 1 if r in samples else 0) for r, n in step.scheduled.items()
        ]
        return lay_out(pieces, self.scheduler.config.block_size)

    def complete(self, step: V1Step, plan: StepPlan | None, logits: Tensor | None) -> Outcome:
        """See `Adapter`."""
        outcome = Outcome()
        if plan is None or logits is None:
            self.scheduler.complete(step)
            return outcome
        sampled = [piece.live for piece in plan.sampled]
        tokens = choose(logits, [live.sampling for live in sampled], draws(sampled))
        by_live = dict(zip(map(id, sampled), tokens, strict=True))
        chosen: dict[V1Request, int] = {}
        for request in step.samples:
            live = self._lives.get(request)
            if live is not None and not request.aborted:
                chosen[request] = by_live[id(live)]
                take(live, chosen[request], outcome)
        for request in self.scheduler.complete(step, chosen):
            self._leave(request, outcome)
        for request in chosen:
            if request in self._lives and self._lives[request].stopped:
                self.scheduler.abort(request)
                self._leave(request, outcome)
        return outcome

    def abort(self, request: str | int) -> bool:
        """See `Adapter`."""
        found = self._by_id.pop(request, None)
        if found is None:
            return False
        self.scheduler.abort(found)
        del self._lives[found]
        return True

    def ignored(self, step: V1Step) -> list[str | int]:
        """See `Adapter`: never any."""
        return []

    def _leave(self, request: V1Request, outcome: Outcome) -> None:
        live = self._lives.pop(request)
        del self._by_id[request.request.id]
        outcome.finished.append(finish(request.request.id, [live]))
