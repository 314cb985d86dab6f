"""Speculative decoding under today's vLLM: a draft proposes k tokens, one step of the model verifies all of them.

Of the k drafts those before the first rejected one are kept, and the step gives one token of the model's own behind
them (Leviathan et al. 2023, algorithm 1). With acceptance `a` at every position, each on its own, a step gives

    E = 1 + a + a^2 + … + a^k = (1 - a^(k+1)) / (1 - a)

tokens of a sequence in expectation (their equation 1); with acceptances a_1 … a_k given that all before were kept, the
sum of their products. The scheduler is V1's: ``num_tokens_with_spec`` tokens are scheduled and have slots, what is
rejected is computed again, and slots are kept for the next drafts (``num_lookahead_tokens``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ....errors import InputError
from ....profiles.llm.iteration import Iteration, IterationCost
from ....reprs import Shown
from ....seeds import generator
from ..policy.catalogue import Policy
from ..policy.request import LLMRequest
from ..policy.vllm_v1 import V1Scheduler
from ..policy.vllm_v1.state import V1Config, V1Request, V1Step
from ..policy.work import Work, work_v1

__all__ = ["Speculative", "SpeculativeCost", "SpeculativeIteration", "SpeculativeScheduler", "speculative_policy"]


@dataclass(frozen=True, slots=True, repr=False)
class Speculative(Shown):
    """Speculative decoding: how draft tokens are made, and how often they are accepted.

    Parameters
    ----------
    tokens : int
        Draft tokens per sequence and step (``num_speculative_tokens``).
    acceptance : float or tuple of float
        Probability that a draft token is accepted, given that all before it were: one for all positions, or one for
        each.
    draft : IterationCost, optional
        The draft model on the same device: it takes one decode step per draft token, and computes the prompts too.
    draft_s : float
        Further seconds per step for making drafts, whatever the batch: a draft head, or an n-gram search on the host.
    lookahead : bool
        Whether KV slots are reserved for the next drafts, as for draft models with a KV cache of their own.
    """

    tokens: int
    acceptance: float | tuple[float, ...]
    draft: IterationCost | None = None
    draft_s: float = 0.0
    lookahead: bool = True

    def __post_init__(self) -> None:
        count: Any = self.tokens
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise InputError(f"speculative: tokens: expected an integer >= 1 (got {count!r})")
        chances = self.chances
        if len(chances) != self.tokens:
            raise InputError(f"speculative: acceptance: expected one number or {self.tokens} (got {len(chances)})")
        if not all(math.isfinite(a) and 0 <= a <= 1 for a in chances):
            raise InputError(f"speculative: acceptance: expected shares in [0, 1] (got {self.acceptance})")
        if not (math.isfinite(self.draft_s) and self.draft_s >= 0):
            raise InputError(f"speculative: draft_s: expected seconds >= 0 (got {self.draft_s})")

    @property
    def chances(self) -> tuple[float, ...]:
        """Acceptance of each position."""
        if isinstance(self.acceptance, tuple):
            return self.acceptance
        return (float(self.acceptance),) * self.tokens

    @property
    def expected_tokens(self) -> float:
        """Tokens of a sequence that a step gives in expectation, far from the end of its output."""
        return 1.0 + float(np.cumprod(self.chances).sum())

    def kept(self, draws: Any) -> int:
        """Drafts before the first rejected one, from a uniform draw for each."""
        for i, (draw, chance) in enumerate(zip(draws, self.chances, strict=False)):
            if draw >= chance:
                return i
        return len(draws)


@dataclass(frozen=True, slots=True)
class SpeculativeIteration(Iteration):
    """An iteration that verifies drafts: `prefill` holds prompts and, after them, the sequences that are verified.

    Parameters
    ----------
    verified : int
        How many of the chunks are verifications.
    proposing, proposing_context : int
        Sequences for which drafts are made after the step, and their tokens together.
    """

    verified: int = 0
    proposing: int = 0
    proposing_context: int = 0


@dataclass(frozen=True, slots=True)
class SpeculativeCost:
    """The model's iterations and the drafts: an `IterationCost`.

    Verifying n tokens of a sequence is a chunk of n on its context for `target`: n rows of every matrix, its keys and
    values read once.

    Parameters
    ----------
    target : IterationCost
        The model.
    speculative : Speculative
        The drafts.
    """

    target: IterationCost
    speculative: Speculative

    def seconds(self, iteration: Iteration) -> float:
        """Seconds of an iteration, proposals included."""
        seconds = self.target.seconds(iteration)
        if not isinstance(iteration, SpeculativeIteration):
            return seconds
        n, s = iteration.proposing, self.speculative
        if n:
            seconds += s.draft_s
        if s.draft is not None:
            prompts = iteration.prefill[: len(iteration.prefill) - iteration.verified]
            if prompts:
                seconds += s.draft.seconds(Iteration(prompts, outputs=n))
            if n:
                seconds += sum(
                    s.draft.seconds(Iteration((), n, iteration.proposing_context + i * n, n)) for i in range(s.tokens)
                )
        return seconds


class SpeculativeScheduler(V1Scheduler):
    """V1's scheduler with drafts. How many of a request's drafts are accepted is drawn from a stream of its own."""

    def __init__(self, config: V1Config, speculative: Speculative, seed: int) -> None:
        super().__init__(config)
        self.speculative, self._seed = speculative, seed
        self._ahead = speculative.tokens if speculative.lookahead else 0
        self._streams: dict[V1Request, np.random.Generator] = {}
        self.drafted: dict[V1Request, int] = {}
        """Drafts that the present step verifies, by request."""
        self.kept: dict[V1Request, int] = {}
        """Tokens that it gives besides one."""

    def schedule(self) -> V1Step:
        """Decide the next step."""
        step = super().schedule()
        self.drafted, self.kept = {}, {}
        for request in step.samples:
            drafts = request.computed - request.length  # tokens at their own places end at the last one
            if drafts > 0:
                self.drafted[request] = drafts
                # One token is the model's own: a request that needs one more token keeps no draft.
                left = min(request.request.output - request.output, self.config.max_model_len - request.length) - 1
                self.kept[request] = max(0, min(self.speculative.kept(self._draws(request, drafts)), left))
        return step

    def complete(self, step: V1Step, sampled: Mapping[V1Request, int] | None = None) -> list[V1Request]:
        """Tokens appear: those of kept drafts and one more of each; what was rejected is to be computed again."""
        for request in step.samples:
            for _ in range(self.kept.get(request, 0)):
                if request.tokens:
                    request.tokens.append((request.request.id, "output", request.length))
                request.length += 1
                if not request.length % self.config.block_size:
                    self._name_blocks(request)
        finished = super().complete(step, sampled)
        gone = set(finished)
        for request in finished:
            self._streams.pop(request, None)
        for request in step.samples:
            if request not in gone and request.blocks:
                request.computed = request.length - 1
                request.drafts = self.speculative.tokens
        return finished

    def _admit(self, step: V1Step, budget: int) -> None:
        # As in vLLM (`effective_lookahead_tokens`), who is admitted gets slots for drafts in its next step only.
        ahead, self._ahead = self._ahead, 0
        super()._admit(step, budget)
        self._ahead = ahead

    def _grow(self, request: V1Request, tokens: int) -> bool:
        end = request.computed + tokens
        if self._ahead and end >= request.length:
            need = self._need(request, end + self._ahead, [])
            if need > self.pool.free_blocks:
                return False
            request.blocks += self.pool.take(need)
        return super()._grow(request, tokens)

    def _preempt(self, request: V1Request, step: V1Step) -> None:
        request.drafts = 0
        super()._preempt(request, step)

    def _draws(self, request: V1Request, drafts: int) -> Any:
        if request not in self._streams:
            self._streams[request] = generator(self._seed, "llm", "speculative", str(request.request.id))
        # Always all of them, so that a step with fewer drafts does not move the draws of the steps after it.
        return self._streams[request].random(self.speculative.tokens)[:drafts]


def speculative_policy(policy: Policy, speculative: Speculative, seed: int) -> Policy:
    """V1's policy with drafts; a request must fit with the drafts behind its last token."""

    def fatal(config: V1Config, request: LLMRequest) -> str | None:
        # Twice: the drafts that are verified, and the slots that are kept for those to come (`lookahead`).
        return policy.fatal(config, replace(request, output=request.output + 2 * speculative.tokens))

    scheduler = partial(SpeculativeScheduler, speculative=speculative, seed=seed)
    return replace(policy, scheduler=scheduler, work=_work, fatal=fatal)


def _work(scheduler: SpeculativeScheduler, step: V1Step, padded: bool) -> Work:
    """A step's work: verifications are chunks after those of prompts; each gives logits at all of its tokens."""
    work = work_v1(scheduler, step, padded)
    if work.iteration is None:
        return work
    drafted = scheduler.drafted
    prompts: list[tuple[int, int]] = []
    verified: list[tuple[int, int]] = []
    for request, tokens in step.scheduled.items():
        if tokens > 1 or request.computed == 1:
            (verified if request in drafted else prompts).append((tokens, request.computed - tokens))
    work.iteration = SpeculativeIteration(
        (*prompts, *verified),
        work.iteration.decodes,
        work.iteration.context,
        len(step.samples) + sum(drafted.values()),
        len(verified),
        len(step.samples),
        sum(request.length for request in step.samples),
    )
    work.emits = [r.request.id for r in step.samples for _ in range(1 + scheduler.kept.get(r, 0))]
    return work
