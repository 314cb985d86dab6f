"""The scheduler of today's vLLM (V1): one token budget a step, shared by prefills and decodes; prefix caching.

Every request has tokens, and tokens whose keys and values are computed; a step hands out the difference, running
requests first. Preemption is by recomputation; what the prefix cache still holds need not be computed again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .....errors import InputError
from ...memory.adapters import AdapterSlots
from ...memory.block_tables import BlockTables
from ...memory.group_tables import GroupTables
from ...memory.prefix_blocks import HashedPool, request_contents
from ..request import LLMRequest
from .state import V1Config, V1Request, V1Step

__all__ = ["V1Config", "V1Request", "V1Scheduler", "V1Step"]


class V1Scheduler:
    """The policy: knows requests, blocks and steps, and no clock.

    Life cycle: `add`, `schedule`, `complete`. Up to `V1Config.batches` steps may be decided before the first of them is
    completed.
    """

    def __init__(self, config: V1Config) -> None:
        self.config = config
        self.pool = HashedPool(config.num_blocks, config.enable_prefix_caching)
        self.waiting: list[V1Request] = []
        self.running: list[V1Request] = []
        self._watermark = int(config.watermark * config.num_blocks)
        self._count = 0
        grouped = config.groups > 1 or config.window_groups > 0
        self._tables: Any = (GroupTables if grouped else BlockTables)(config, self.pool)
        self._pipelined = config.pipeline_parallel_size > 1
        self._step = 0
        self._most = 0  # tokens of a request in the step that is decided; 0: no limit
        self._adapters = AdapterSlots(config.max_loras, config.max_cpu_loras)

    def add(self, request: LLMRequest) -> V1Request:
        """A request arrives.

        Raises
        ------
        InputError
            On an adapter where there are no slots for any.
        """
        if request.lora is not None and not self.config.max_loras:
            raise InputError(f"request {request.id!r}: lora {request.lora!r}: the engine has no slots; give max_loras")
        new = V1Request(request, self._count, request.prompt)
        if self.pool.caching and request.tokens is not None:
            new.tokens = list(request.tokens)
        self._name_blocks(new)
        self._count += 1
        self.waiting.append(new)
        self._sort_waiting()
        return new

    def schedule(self) -> V1Step:
        """Decide the next step."""
        step, c = V1Step(), self.config
        self._step += 1
        # The threshold exists so that a long prompt does not starve others. A request that is alone starves nobody.
        limited = c.limit_alone or len(self.running) + len(self.waiting) > 1
        self._most = c.long_prefill_token_threshold if limited else 0
        budget = self._running(step, c.max_num_batched_tokens)
        if not step.preempted:
            self._admit(step, budget)
        for request, tokens in step.scheduled.items():
            # At once and not when the step ends, as in vLLM: the next step may be decided before this one is done.
            request.computed += tokens
            if request.computed >= request.length + request.awaited:
                request.awaited += 1
                step.samples.append(request)
                # A stage gets the token of one decode before it sends that of the next (vLLM's model runner V2).
                request.eligible = self._step + c.pipeline_parallel_size
            if self._pipelined:
                request.flying += tokens
        if c.max_loras:
            used = (r.request.lora for r in step.scheduled if r.request.lora is not None)
            step.loads, step.copies = self._adapters.use(used)
        return step

    def complete(self, step: V1Step, sampled: Mapping[V1Request, int] | None = None) -> list[V1Request]:
        """Give every request whose tokens are all computed its new token; returns the requests that finished.

        Parameters
        ----------
        step : V1Step
            The step that ran.
        sampled : mapping of V1Request to int, optional
            Ids of the new tokens, where a model chose them, so that later prompts that contain them find their blocks
            in the prefix cache. Without it no other request can share them.
        """
        finished: list[V1Request] = []
        size, longest = self.config.block_size, self.config.max_model_len
        if self._pipelined:
            for request, tokens in step.scheduled.items():
                request.flying -= tokens
        for request in step.samples:
            if request.aborted:
                continue
            request.awaited -= 1
            if request.tokens:
                own = (request.request.id, "output", request.length)
                request.tokens.append(own if sampled is None else sampled[request])
            request.length += 1
            if not request.length % size:
                self._name_blocks(request)
            if self.config.async_scheduling and request.holds:
                self._publish(request, request.computed - request.awaited)
            if request.output >= request.request.output or request.length >= longest:
                finished.append(request)
                (self.running if request.holds else self.waiting).remove(request)  # it may be preempted by now
                self._free(request)
        return finished

    def abort(self, request: V1Request) -> None:
        """Remove a request before its end: its blocks are freed, and steps under way give it no more tokens."""
        for queue in (self.waiting, self.running):
            if request in queue:
                queue.remove(request)
        self._free(request)
        request.aborted = True

    def _name_blocks(self, request: V1Request) -> None:
        """Contents of the blocks that its tokens have filled."""
        if self.pool.caching:
            request.contents += request_contents(
                request.request, request.tokens, request.length, self.config.block_size, request.contents
            )

    def _running(self, step: V1Step, budget: int) -> int:
        """Tokens for the running requests, in order; returns what is left of the budget."""
        # vLLM keeps the last position for the token that is sampled: prompts are computed up to max_model_len - 1.
        i, most, longest = 0, self._most or budget, self.config.max_model_len - 1
        size, ahead = self.config.block_size, self.config.async_scheduling
        skips, near, tables = self._pipelined and ahead, self.config.window_groups > 0, self._tables
        while i < len(self.running) and budget > 0:
            request = self.running[i]
            # Without asynchronous scheduling a token must be there before the next one is computed.
            total = request.length + request.awaited if ahead else request.length
            tokens = total + request.drafts - request.computed
            if request.awaited and (
                request.length + 1 >= request.request.prompt + request.request.output or total > longest
            ):
                tokens = 0  # what is under way is its last one
            if skips and self._step < request.eligible:
                tokens = 0
            if tokens > 1:
                tokens = min(tokens, most, budget, longest - request.computed)
            if tokens <= 0:  # skipped and not the end of the loop: those behind it may have tokens to compute
                i += 1
                continue
            if near:
                tables.let_go(request, request.computed - request.flying)
            if tokens == 1 and (request.computed + 1) % size and request.computed < tables.slots(request) * size:
                step.scheduled[request] = 1  # the usual case: a token in a block that it does not fill
                budget -= 1
                i += 1
                continue
            while (fits := self._grow(request, tokens)) is False:
                victim = self._victim()
                place = self.running.index(victim)
                del self.running[place]
                if place < i:  # only under priorities
                    i -= 1
                budget += step.scheduled.pop(victim, 0)  # it gives back what it was given
                self._preempt(victim, step)
                if victim is request:
                    break
            if not fits and self.config.policy == "priority":
                continue  # it preempted itself: the next one stands in its place
            if not fits:
                break
            step.scheduled[request] = tokens
            budget -= tokens
            i += 1
        return budget

    def _admit(self, step: V1Step, budget: int) -> None:
        """Waiting requests, in order, until one does not fit."""
        c, at = self.config, 0
        # Of all that run: one that this step passes over may join the next batch.
        loras = {r.request.lora for r in self.running} - {None} if c.max_loras else set[str | int]()
        while at < len(self.waiting) and budget > 0 and len(self.running) < c.most_running:
            request = self.waiting[at]
            lora = request.request.lora
            if request.flying:
                at += 1  # it was preempted while a step computes for it, whose token is still to come
                continue
            if lora is not None and lora not in loras and len(loras) >= c.max_loras:
                at += 1  # it keeps its place; those behind it may pass
                continue
            found = self._cached(request)
            hit = self._tables.hit(found)
            tokens = request.length - hit
            if 0 < self._most < tokens:
                tokens = self._most
            if not c.enable_chunked_prefill and tokens > budget:
                break  # and not the next one: nobody overtakes
            tokens = min(tokens, budget)
            # An empty engine ignores the watermark, or a prompt that just fits would wait for ever.
            room = self.pool.free_blocks - (self._watermark if self.running else 0)
            if c.scheduler_reserve_full_isl and self._tables.whole(request, found) > room:
                break
            if self._need(request, hit + tokens, found) > room:
                break
            self.waiting.pop(at)
            if lora is not None:
                loras.add(lora)
            self._tables.adopt(request, found)
            request.computed = hit
            self._grow(request, tokens)
            self.running.append(request)
            (step.resumed if request.resumed else step.new).append(request)
            step.cached[request] = hit
            step.scheduled[request] = tokens
            budget -= tokens

    def _cached(self, request: V1Request) -> Any:
        """Blocks of the longest cached prefix that leaves at least one token to compute."""
        return self._tables.find(request)

    def known_tokens(self, asked: LLMRequest) -> int:
        """Prompt tokens of a request that the prefix cache holds now."""
        if not self.pool.caching:
            return 0
        probe = V1Request(asked, -1, asked.prompt, tokens=list(asked.tokens or ()))
        self._name_blocks(probe)
        return self._tables.hit(self._tables.find(probe))

    def _need(self, request: V1Request, tokens: int, found: Any) -> int:
        """Blocks that leave the free queue for the request to have room for so many tokens."""
        return self._tables.need(request, tokens, found)

    def _grow(self, request: V1Request, tokens: int) -> bool:
        """Room for the next tokens, whose full blocks can be found from now on; False if too few blocks are free."""
        return self._tables.grow(request, tokens)

    def _publish(self, request: V1Request, tokens: int) -> None:
        """Let the blocks that so many tokens fill be found."""
        self._tables.publish(request, tokens)

    def slots_of(self, request: V1Request) -> int:
        """Blocks that its tokens have had in each group of layers."""
        return self._tables.slots(request)

    def held_of(self, request: V1Request) -> int:
        """Blocks that it has now."""
        return self._tables.held(request)

    def _victim(self) -> V1Request:
        if self.config.policy == "priority":
            return max(self.running, key=lambda r: r.rank)
        return self.running[-1]

    def _preempt(self, request: V1Request, step: V1Step) -> None:
        self._free(request)
        request.computed, request.resumed = 0, True
        self.waiting.insert(0, request)
        self._sort_waiting()
        step.preempted.append(request)

    def _free(self, request: V1Request) -> None:
        self._tables.free(request)
        request.published = request.slots = request.gone = 0

    def _sort_waiting(self) -> None:
        if self.config.policy == "priority":
            self.waiting.sort(key=lambda r: r.rank)  # under priorities being preempted gives no place in front
