"""The two schedulers of disaggregated serving, clock-free: vLLM V1 for prompts only, and for what follows them."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import replace

from ..memory.prefix_blocks import HashedBlock
from ..policy.catalogue import Policy
from ..policy.request import LLMRequest
from ..policy.vllm_v1 import V1Scheduler
from ..policy.vllm_v1.state import V1Config, V1Request, V1Step
from ..policy.work import Work, work_v1

__all__ = ["DecodeScheduler", "PrefillScheduler", "halves"]


class PrefillScheduler(V1Scheduler):
    """vLLM V1 with outputs of one token. The blocks of finished prompts are held until `release`, to be sent."""

    def __init__(self, config: V1Config) -> None:
        super().__init__(config)
        self.held: dict[Hashable, list[HashedBlock]] = {}

    def add(self, request: LLMRequest) -> V1Request:
        """A request arrives: its first token is wanted."""
        return super().add(replace(request, output=1))

    def complete(self, step: V1Step, sampled: Mapping[V1Request, int] | None = None) -> list[V1Request]:
        """Prompts that are processed and have their first token."""
        for request in step.samples:  # one share more, so that finishing the request does not free its blocks
            if request.blocks:
                self.pool.touch(request.blocks)
                self.held[request.request.id] = list(request.blocks)
        return super().complete(step) if sampled is None else super().complete(step, sampled)

    def release(self, name: Hashable) -> None:
        """Free the blocks of a request, which were sent or are not wanted. They stay in the prefix cache."""
        self.pool.release(self.held.pop(name)[::-1])  # reversed: the end of a prompt is evicted before its beginning


class DecodeScheduler(V1Scheduler):
    """Today's vLLM for requests whose prompt was processed elsewhere and whose first token is there.

    `expect` announces one, `claims` says for whom blocks were reserved since it was last asked, `arrived` that the
    keys and values are there. Running ones go first; then, if nothing was preempted, those that were preempted, which
    are computed again here; then, if none of these waits, the announced ones in order, while `max_num_seqs` and
    blocks for prompt and first token allow.
    """

    def __init__(self, config: V1Config) -> None:
        super().__init__(config)
        self.expected: deque[tuple[V1Request, bool]] = deque()
        self.coming: dict[Hashable, V1Request] = {}
        self.landed: list[V1Request] = []
        self._claims: list[tuple[Hashable, int]] = []

    def expect(self, request: LLMRequest, here: bool) -> None:
        """A request is announced; `here`: its keys and values lie in the host's memory and need only blocks."""
        new = V1Request(request, self._count, request.prompt + 1)  # the prefill engine gave the first token
        if self.pool.caching and request.tokens is not None:
            new.tokens = [*request.tokens, (request.id, "output", request.prompt)]
        self._name_blocks(new)
        self._count += 1
        self.expected.append((new, here))

    def claims(self) -> list[tuple[Hashable, int]]:
        """Requests that got blocks since the last call, and how many blocks of each are to be sent."""
        claims, self._claims = self._claims, []
        return claims

    def arrived(self, name: Hashable) -> None:
        """All blocks of a request are there: it decodes from the next step on."""
        self.landed.append(self.coming.pop(name))

    def forget(self, name: Hashable) -> None:
        """A request that was announced will not come; nothing happens if it was not."""
        self.expected = deque(e for e in self.expected if e[0].request.id != name)
        if name in self.coming:
            self._free(self.coming.pop(name))

    def schedule(self) -> V1Step:
        """Decide the next step."""
        for request in self.landed:
            self._land(request)
        self.landed.clear()
        return super().schedule()

    def _land(self, request: V1Request) -> None:
        request.computed = request.request.prompt
        self._publish(request, request.computed)
        self.running.append(request)

    def _admit(self, step: V1Step, budget: int) -> None:
        super()._admit(step, budget)
        c = self.config
        budget = c.max_num_batched_tokens - sum(step.scheduled.values())
        while self.expected and not self.waiting and len(self.running) + len(self.coming) < c.max_num_seqs:
            request, here = self.expected[0]
            found: list[HashedBlock] = [] if here else self._cached(request)
            room = self.pool.free_blocks - (self._watermark if self.running else 0)
            if self._need(request, request.length, found) > room or (here and budget < 1):
                break
            self.expected.popleft()
            self.pool.touch(found)
            blocks = -(-request.length // c.block_size)
            request.blocks = found + self.pool.take(blocks - len(found))
            request.published = len(found)
            if here:
                self._land(request)
                step.scheduled[request] = 1
                budget -= 1
            else:
                self.coming[request.request.id] = request
                self._claims.append((request.request.id, -(-request.request.prompt // c.block_size) - len(found)))


def halves(policy: Policy) -> tuple[Policy, Policy]:
    """Today's vLLM as the policies of a prefill and of a decode engine."""

    def cannot(config: V1Config, request: LLMRequest) -> str | None:
        return policy.fatal(config, replace(request, output=1))

    return (
        replace(policy, scheduler=PrefillScheduler, cannot=cannot, fatal=cannot),
        replace(policy, scheduler=DecodeScheduler, work=_work, busy=_busy),
    )


def _work(scheduler: DecodeScheduler, step: V1Step, padded: bool) -> Work:
    work = work_v1(scheduler, step, padded)
    work.waiting += len(scheduler.expected)
    return work


def _busy(scheduler: DecodeScheduler) -> bool:
    return bool(scheduler.waiting or scheduler.running or scheduler.landed or scheduler.expected)
