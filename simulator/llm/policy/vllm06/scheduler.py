"""The last scheduler of vLLM's first engine (V0; exact rules of vLLM 0.6.6): one token budget a step, prompts first.

Without chunked prefill a step computes whole prompts, or a token of every running request. With it a step takes the
decodes and the prompts under way, then what was swapped out, then new prompts, as far as the budget goes. Tokens that
the prefix cache holds cost nothing of it. Against 0.2 (`vllm02`): prompts are not padded, samples are requests of their
own, nothing is sorted under first come, first served, and what is swapped comes back in the order of preemption.

What is vLLM's and surprises: how much of a prompt is cached is looked up once, when it is first at the head of the
queue; a prompt's blocks count as computed when its first chunk is scheduled; with chunked prefill and prefix caching
decodes, too, get tokens only while a whole block of the budget is left; prompts are admitted as if nothing was cached.

Not modelled: asynchronous output processing (``--disable-async-output-proc``), several steps at once
(``--num-scheduler-steps``), sliding windows, encoders. Of requests that can never be swapped in the host's blocks are
freed here; vLLM 0.6.6 loses them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from .....errors import InputError
from ...memory.blocks import Allocation
from ...memory.caching_tables import CachingTables
from ...memory.prefix_blocks import request_contents
from ..request import LLMRequest
from .delay import PromptDelay
from .options import Vllm06Config
from .preempting import give_way, preempt
from .seats import AdapterSeats
from .state import Budget, Vllm06Request, Vllm06Step
from .tokens import new_tokens

__all__ = ["Vllm06Scheduler"]

Group = list[tuple[Vllm06Request, int]]
"""Requests, and the tokens of each."""


class Vllm06Scheduler:
    """The policy: knows requests, blocks and steps, and of time what it is told.

    Life cycle: `add`, `schedule`, `complete`.
    """

    def __init__(self, config: Vllm06Config) -> None:
        self.config = config
        self.memory = CachingTables(config)
        self.waiting: list[Vllm06Request] = []
        self.running: list[Vllm06Request] = []
        self.swapped: list[Vllm06Request] = []
        self._steps = 0
        self._delay = PromptDelay(config.delay_factor)
        self.seats = AdapterSeats(config.max_loras)

    def add(self, request: LLMRequest) -> Vllm06Request:
        """A request arrives.

        Raises
        ------
        InputError
            On an adapter where there are no slots for any.
        """
        if request.lora is not None:
            if not self.config.max_loras:
                raise InputError(
                    f"request {request.id!r}: lora {request.lora!r}: the engine has no slots; give max_loras"
                )
            self.seats.name(request.lora)
        new = Vllm06Request(request, request.prompt)
        if self.config.enable_prefix_caching:
            new.tokens = list(request.tokens or ())
            new.name_blocks(self.config.block_size)
        self.waiting.append(new)
        return new

    def schedule(self, now: float | None = None) -> Vllm06Step:
        """Decide the next step.

        Parameters
        ----------
        now : float, optional
            The time (s), by the clock of the requests' arrivals: `Vllm06Config.delay_factor` and the order of eviction
            look at it. Without it decisions are counted, from 0 on.
        """
        now = float(self._steps) if now is None else now
        self._steps += 1
        c, step = self.config, Vllm06Step()
        budget = Budget(c.token_budget, c.max_num_seqs)
        chunked = c.enable_chunked_prefill
        prompts, decodes = (self._mixed if chunked else self._either)(step, budget, now)
        if any(r.request.lora is not None for r, _ in prompts + decodes):
            prompts.sort(key=self.seats.turn)
            decodes.sort(key=self.seats.turn)
        step.prompts, step.scheduled = len(prompts), dict(prompts + decodes)
        step.num_batched_tokens = budget.tokens + sum(step.cached.values())
        for request, tokens in step.scheduled.items():
            request.seen = now
            if request.computed + tokens == request.length:
                step.samples.append(request)
        self.memory.gpu.settle()
        step.loads, step.copies = self.seats.load(step.scheduled)
        return step

    def complete(self, step: Vllm06Step, sampled: Mapping[Vllm06Request, int] | None = None) -> list[Vllm06Request]:
        """Give every request whose tokens are all computed its new token; returns the requests that finished.

        Parameters
        ----------
        step : Vllm06Step
            The step that ran.
        sampled : mapping of Vllm06Request to int, optional
            Ids of the new tokens, where a model chose them; see `V1Scheduler.complete`.
        """
        c, finished = self.config, list[Vllm06Request]()
        for request, tokens in step.scheduled.items():
            if request.aborted:
                continue
            request.computed += tokens
            if request.computed < request.length:
                continue
            request.decoding = True
            if request.tokens:
                own = (request.request.id, "output", request.length)
                request.tokens.append(own if sampled is None else sampled[request])
            request.length += 1
            if c.enable_prefix_caching and not request.length % c.block_size:
                request.name_blocks(c.block_size)
            if request.output >= request.request.output or request.length > c.max_model_len:
                finished.append(request)
                self.running.remove(request)
                self.memory.free(request)
        return finished

    def abort(self, request: Vllm06Request) -> None:
        """Remove a request before its end: its blocks, on the device or swapped out, are freed."""
        for queue in (self.waiting, self.running, self.swapped):
            if request in queue:
                queue.remove(request)
        self.memory.free(request)
        request.aborted = True

    def known_tokens(self, asked: LLMRequest) -> int:
        """Prompt tokens of a request that the prefix cache holds now."""
        size = self.config.block_size
        contents = request_contents(asked, asked.tokens or (), asked.prompt, size)
        return min(self.memory.gpu.known(contents) * size, asked.prompt - 1)

    def _either(self, step: Vllm06Step, budget: Budget, now: float) -> tuple[Group, Group]:
        """Whole prompts; where there are none, decodes."""
        budget.seqs = len(self.running)
        self.seats.begin(self.running)
        # Who is swapped comes before who waits.
        prompts = [] if self.swapped else self._admit(step, budget, now)
        if prompts:
            self.running += _names(prompts)
            return prompts, []
        if self.config.policy == "priority":
            give_way(self.config, self.memory, self.running, self.waiting, budget, step)
        lost: list[Vllm06Request] = []
        _, decodes = self._run(step, budget, lost)
        back = [] if lost else self._swap_in(step, budget)
        self.running += _names(decodes + back)
        self._leave(lost)
        return [], decodes + back

    def _mixed(self, step: Vllm06Step, budget: Budget, now: float) -> tuple[Group, Group]:
        """Decodes and chunks of prompts together."""
        self.seats.begin(())
        lost: list[Vllm06Request] = []
        chunks, decodes = self._run(step, budget, lost)
        back = [] if lost else self._swap_in(step, budget)
        back_chunks = [(r, n) for r, n in back if not r.decoding]
        back_decodes = [(r, n) for r, n in back if r.decoding]
        new = self._admit(step, budget, now)
        # Two orders, as vLLM has them: the queue's, and the step's, which wants prompts first.
        self.running += _names(back_decodes + back_chunks + decodes + chunks + new)
        self._leave(lost)
        return new + chunks + back_chunks, decodes + back_decodes

    def _leave(self, lost: list[Vllm06Request]) -> None:
        """Where those go that were preempted: to the front of the queue, or behind those that are swapped out."""
        self.waiting[:0] = [r for r in reversed(lost) if not r.swapped]
        self.swapped += [r for r in lost if r.swapped]

    def _tokens(self, request: Vllm06Request, budget: Budget, chunked: bool) -> tuple[int, int]:
        return new_tokens(self.config, self.memory.gpu, request, budget, chunked)

    def _ahead(self, request: Vllm06Request) -> int:
        return self.config.num_lookahead_slots if request.decoding else 0

    def _run(self, step: Vllm06Step, budget: Budget, lost: list[Vllm06Request]) -> tuple[Group, Group]:
        """Tokens for the running requests, in order; the newest of the others is preempted where blocks run out."""
        chunked, queue = self.config.enable_chunked_prefill, deque(self.running)
        chunks, decodes = Group(), Group()
        while queue:
            request = queue[0]
            tokens, _ = self._tokens(request, budget, chunked)
            if not tokens:
                break
            queue.popleft()
            while not self.memory.can_append(request, self._ahead(request)):
                self.seats.drop(request)
                victim = queue.pop() if queue else request
                preempt(self.config, self.memory, victim, step)
                lost.append(victim)
                if victim is request:
                    break
            else:
                self.memory.append(request, self._ahead(request))
                (decodes if request.decoding else chunks).append((request, tokens))
                budget.tokens += tokens
                budget.seqs += chunked  # else all that run are counted beforehand
                self.seats.take(request)
        self.running = list(queue)
        return chunks, decodes

    def _swap_in(self, step: Vllm06Step, budget: Budget) -> Group:
        """What was swapped out, in order, until one does not fit; nothing is cut in chunks."""
        back, passed = Group(), list[Vllm06Request]()
        while self.swapped:
            request = self.swapped[0]
            fits = self.memory.can_swap_in(request, self._ahead(request))
            if fits is Allocation.LATER:
                break
            if fits is Allocation.NEVER:
                self._ignore(self.swapped, step)
                continue
            if self.seats.lacks(request):
                passed.append(self.swapped.pop(0))
                continue
            fresh, cached = self._tokens(request, budget, False)
            if not budget.fits(fresh):
                break
            self.seats.take(request)
            self.swapped.pop(0)
            step.swap_in += self.memory.swap_in(request)
            self.memory.append(request, self._ahead(request))
            back.append((request, fresh + cached))
            budget.spend(fresh)
            if cached:
                step.cached[request] = cached
        self.swapped[:0] = passed
        return back

    def _admit(self, step: Vllm06Step, budget: Budget, now: float) -> Group:
        """Waiting requests, in order, until one does not fit or must wait."""
        c, chunked = self.config, self.config.enable_chunked_prefill
        new, passed = Group(), list[Vllm06Request]()
        while self._delay.passed(now, self.waiting, idle=not self.running) and self.waiting:
            request = self.waiting[0]
            fresh, cached = self._tokens(request, budget, chunked)
            fits = Allocation.NEVER if fresh + cached > c.prompt_limit else self.memory.can_allocate(request)
            if fits is Allocation.LATER:
                break
            if fits is Allocation.NEVER:
                self._ignore(self.waiting, step)
                continue
            if self.seats.lacks(request):
                passed.append(self.waiting.pop(0))
                continue
            if not fresh or not budget.fits(fresh):
                break
            self.seats.take(request)
            self.waiting.pop(0)
            self.memory.allocate(request)
            (step.resumed if request.resumed else step.new).append(request)
            new.append((request, fresh + cached))
            budget.spend(fresh)
            if cached:
                step.cached[request] = cached
        self.waiting[:0] = passed
        self._delay.admitted(bool(new))
        return new

    def _ignore(self, queue: list[Vllm06Request], step: Vllm06Step) -> None:
        """The first of a queue can never run."""
        request = queue.pop(0)
        self.memory.free(request)
        step.ignored.append(request)


def _names(group: Group) -> list[Vllm06Request]:
    return [request for request, _ in group]
