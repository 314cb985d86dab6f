"""The scheduler of today's vLLM (V1): one token budget a step, shared by prefills and decodes; prefix caching.

Every request has tokens, and tokens whose keys and values are computed; a step hands out the difference, running
requests first. Preemption is by recomputation; what the prefix cache still holds need not be computed again.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..memory.prefix_blocks import HashedBlock, HashedPool, block_hashes
from .request import LLMRequest
from .vllm_v1_state import V1Config, V1Request, V1Step

__all__ = ["V1Config", "V1Request", "V1Scheduler", "V1Step"]


class V1Scheduler:
    """The policy: knows requests, blocks and steps, and no clock.

    Life cycle: `add`, `schedule`, `complete`. Under asynchronous scheduling `schedule` may be called once more before
    `complete`.
    """

    def __init__(self, config: V1Config) -> None:
        self.config = config
        self.pool = HashedPool(config.num_blocks, config.enable_prefix_caching)
        self.waiting: list[V1Request] = []
        self.running: list[V1Request] = []
        self._watermark = int(config.watermark * config.num_blocks)
        self._count = 0
        self._grouped = config.groups > 1 or config.window_groups > 0
        self._most = 0  # tokens of a request in the step that is decided; 0: no limit

    def add(self, request: LLMRequest) -> V1Request:
        """A request arrives."""
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
            if self.config.async_scheduling and request.blocks:
                self._publish(request, request.computed - request.awaited)
            if request.output >= request.request.output or request.length >= longest:
                finished.append(request)
                (self.running if request.blocks else self.waiting).remove(request)  # it may be preempted by now
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
        """Contents of the blocks that its tokens have filled: by token, or by text and place where there are none."""
        if not self.pool.caching:
            return
        asked, size, contents = request.request, self.config.block_size, request.contents
        if request.tokens:
            contents += block_hashes(request.tokens, size, contents)
            return
        text = asked.id if asked.text is None else ("text", asked.text)
        contents += [(text, k) for k in range(len(contents), request.length // size)]

    def _running(self, step: V1Step, budget: int) -> int:
        """Tokens for the running requests, in order; returns what is left of the budget."""
        # vLLM keeps the last position for the token that is sampled: prompts are computed up to max_model_len - 1.
        i, most, longest = 0, self._most or budget, self.config.max_model_len - 1
        size = self.config.block_size
        while i < len(self.running) and budget > 0:
            request = self.running[i]
            tokens = request.length + request.awaited + request.drafts - request.computed
            total = request.length + request.awaited
            if request.awaited and (total >= request.request.prompt + request.request.output or total > longest):
                tokens = 0  # what is under way is its last one
            if tokens > 1:
                tokens = min(tokens, most, budget, longest - request.computed)
            if tokens <= 0:  # skipped and not the end of the loop: those behind it may have tokens to compute
                i += 1
                continue
            if self._grouped:
                self._let_go(request)
            if tokens == 1 and (request.computed + 1) % size and request.computed < self.slots_of(request) * size:
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
        c = self.config
        while self.waiting and budget > 0 and len(self.running) < c.max_num_seqs:
            request = self.waiting[0]
            found = self._cached(request)
            hit = len(found) * c.block_size
            tokens = request.length - hit
            if 0 < self._most < tokens:
                tokens = self._most
            if not c.enable_chunked_prefill and tokens > budget:
                break  # and not the next one: nobody overtakes
            tokens = min(tokens, budget)
            # An empty engine ignores the watermark, or a prompt that just fits would wait for ever.
            room = self.pool.free_blocks - (self._watermark if self.running else 0)
            if c.scheduler_reserve_full_isl and self._whole(request, found) > room:
                break
            if self._need(request, hit + tokens, found) > room:
                break
            self.waiting.pop(0)
            self.pool.touch(found)
            request.blocks = list(found)
            request.published = len(found)
            request.computed = hit
            self._grow(request, tokens)
            self.running.append(request)
            (step.resumed if request.resumed else step.new).append(request)
            step.cached[request] = hit
            step.scheduled[request] = tokens
            budget -= tokens

    def _cached(self, request: V1Request) -> list[HashedBlock]:
        """Blocks of the longest cached prefix that leaves at least one token to compute.

        Without a computed token there would be no logits to sample from, so a prompt that is cached whole recomputes
        its last block.
        """
        found: list[HashedBlock] = []
        if self.pool.caching:
            for k in range((request.length - 1) // self.config.block_size):
                block = self.pool.find(request.contents[k])
                if block is None:
                    break
                found.append(block)
        return found

    def _whole(self, request: V1Request, found: list[HashedBlock]) -> int:
        """Blocks that must be free for a prompt that is admitted only where all of it fits."""
        if self._grouped:
            return self.config.whole(min(request.length, self.config.max_model_len))
        return self._need(request, request.length, found)

    def slots_of(self, request: V1Request) -> int:
        """Blocks of each group that its tokens have had."""
        return request.slots if self._grouped else len(request.blocks)

    def _let_go(self, request: V1Request) -> None:
        """Give back the blocks behind the window, before others are asked for; the last of them is taken next."""
        c = self.config
        behind = min(c.behind(request.computed), request.slots)
        if behind <= request.gone:
            return
        kept: list[HashedBlock] = []
        freed: list[HashedBlock] = []
        full, groups, place = c.full_groups, c.groups, 0
        for k in range(request.slots):
            have = full if k < request.gone else groups
            own = request.blocks[place : place + have]
            place += have
            kept += own[:full] if k < behind else own
            freed += own[full:] if k < behind else []
        request.blocks, request.gone = kept, behind
        self.pool.release(freed[::-1])

    def _need(self, request: V1Request, tokens: int, found: list[HashedBlock]) -> int:
        """Blocks that leave the free queue for the request to have room for so many tokens."""
        blocks = -(-min(tokens, self.config.max_model_len) // self.config.block_size)
        own = max(0, blocks - len(found) - self.slots_of(request)) * self.config.groups
        # A cached block that nobody uses stands in the free queue and leaves it too.
        return own + sum(not block.shares for block in found) if found else own

    def _grow(self, request: V1Request, tokens: int) -> bool:
        """Room for the next tokens, whose full blocks can be found from now on; False if too few blocks are free."""
        end = request.computed + tokens
        size = self.config.block_size
        if end > self.slots_of(request) * size:
            need = self._need(request, end, [])
            if need > self.pool.free_blocks:
                return False
            request.blocks += self.pool.take(need)
            request.slots += need // self.config.groups
        self._publish(request, min(end, request.length))
        return True

    def _publish(self, request: V1Request, tokens: int) -> None:
        """Let the blocks that so many tokens fill be found."""
        full = tokens // self.config.block_size
        if self.pool.caching and full > request.published:
            for k in range(request.published, full):
                self.pool.publish(request.blocks[k], request.contents[k])
            request.published = full

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
        """Free the blocks in reverse: the end of a sequence is evicted before its beginning, which others may share."""
        self.pool.release(request.blocks[::-1])
        request.blocks, request.published = [], 0
        request.slots = request.gone = 0

    def _sort_waiting(self) -> None:
        if self.config.policy == "priority":
            self.waiting.sort(key=lambda r: r.rank)  # under priorities being preempted gives no place in front
