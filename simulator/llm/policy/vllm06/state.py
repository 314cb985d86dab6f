"""What the scheduler of vLLM 0.6.6 works on: its requests, and its steps."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from .....reprs import Shown
from ...memory.caching_pool import CachedBlock
from ...memory.prefix_blocks import request_contents
from ..request import LLMRequest

__all__ = ["Budget", "Vllm06Request", "Vllm06Step"]


@dataclass(slots=True, eq=False)
class Vllm06Request:
    """A request under way: one sequence, as samples are requests of their own in vLLM 0.6.6.

    Parameters
    ----------
    request : LLMRequest
        What was asked.
    length, computed : int
        Tokens that it has, and tokens whose keys and values are in the cache.
    decoding : bool
        Whether its prompt, and what it had when it was preempted, is computed.
    tokens, contents : list
        Its tokens' identities, where they were given; contents of its full blocks.
    blocks : list of CachedBlock
        Its block table, on the device or the host.
    filled : int
        Tokens that have a slot in its table.
    found : int, optional
        Tokens that the prefix cache held when the scheduler first looked.
    seen : float, optional
        When a step last computed for it, since it has its blocks.
    swapped : bool
        Whether its blocks are on the host.
    resumed, aborted : bool
        Whether it was preempted before; whether it left before its end.
    """

    request: LLMRequest
    length: int
    computed: int = 0
    decoding: bool = False
    tokens: list[Hashable] = field(default_factory=list[Hashable])
    contents: list[Hashable] = field(default_factory=list[Hashable])
    blocks: list[CachedBlock] = field(default_factory=list[CachedBlock])
    filled: int = 0
    found: int | None = None
    seen: float | None = None
    swapped: bool = False
    resumed: bool = False
    aborted: bool = False

    @property
    def output(self) -> int:
        """Tokens that were generated."""
        return self.length - self.request.prompt

    def name_blocks(self, block_size: int) -> None:
        """Tell the contents of the blocks that its tokens have filled."""
        self.contents += request_contents(self.request, self.tokens, self.length, block_size, self.contents)

    @property
    def rank(self) -> tuple[int, float]:
        """What the priority policy sorts by."""
        return self.request.priority, self.request.arrival


@dataclass(slots=True)
class Budget:
    """What a step may still take.

    Parameters
    ----------
    most_tokens, most_seqs : int
        Tokens to compute, and requests, in a step.
    tokens, seqs : int
        Those that were given out.
    """

    most_tokens: int
    most_seqs: int
    tokens: int = 0
    seqs: int = 0

    @property
    def left(self) -> int:
        """Tokens that are left."""
        return self.most_tokens - self.tokens

    def fits(self, tokens: int) -> bool:
        """Whether one more request fits, with so many tokens."""
        return tokens <= self.left and self.seqs < self.most_seqs

    def spend(self, tokens: int) -> None:
        """Give one more request so many tokens."""
        self.tokens += tokens
        self.seqs += 1


Pairs = list[tuple[int, int]]


@dataclass(slots=True, repr=False)
class Vllm06Step(Shown):
    """What one scheduling decision asks of the engine.

    Parameters
    ----------
    scheduled : dict of Vllm06Request to int
        Tokens of each request, those that the prefix cache holds included; prompts first.
    prompts : int
        How many of them are prompts, or chunks of prompts.
    cached : dict of Vllm06Request to int
        Of these tokens, those that the prefix cache holds.
    num_batched_tokens : int
        Tokens in the step, cached ones included.
    swap_out, swap_in : list of (int, int)
        Blocks to move before the model runs.
    new, resumed : list of Vllm06Request
        Requests that were admitted for the first time, or again after a preemption by recomputation.
    preempted : list of Vllm06Request
        Requests that lost their blocks, or whose blocks go to the host.
    ignored : list of Vllm06Request
        Requests that never run (again).
    samples : list of Vllm06Request
        Requests that get a token.
    loads, copies : int
        LoRA adapters to read from the disk, and to copy into a slot, before the model runs.
    """

    scheduled: dict[Vllm06Request, int] = field(default_factory=dict[Vllm06Request, int])
    prompts: int = 0
    cached: dict[Vllm06Request, int] = field(default_factory=dict[Vllm06Request, int])
    num_batched_tokens: int = 0
    swap_out: Pairs = field(default_factory=list[tuple[int, int]])
    swap_in: Pairs = field(default_factory=list[tuple[int, int]])
    new: list[Vllm06Request] = field(default_factory=list[Vllm06Request])
    resumed: list[Vllm06Request] = field(default_factory=list[Vllm06Request])
    preempted: list[Vllm06Request] = field(default_factory=list[Vllm06Request])
    ignored: list[Vllm06Request] = field(default_factory=list[Vllm06Request])
    samples: list[Vllm06Request] = field(default_factory=list[Vllm06Request])
    loads: int = 0
    copies: int = 0
