"""What the scheduler of today's vLLM (V1) works on: its options, its requests, its steps."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from .....errors import InputError
from .....reprs import Shown
from ...memory.prefix_blocks import HashedBlock
from ..request import LLMRequest

__all__ = ["V1Config", "V1Request", "V1Step"]

POLICIES = ("fcfs", "priority")


@dataclass(frozen=True, slots=True)
class V1Config:
    """Engine arguments, by vLLM's own names.

    Parameters
    ----------
    num_blocks : int
        Blocks of KV memory, the null block included.
    block_size : int
        Tokens in a block.
    max_model_len, max_num_batched_tokens, max_num_seqs : int
        Tokens of a sequence, of a step; running requests.
    enable_prefix_caching, enable_chunked_prefill : bool
        Find full blocks again by their content; split prompts over steps.
    policy : {"fcfs", "priority"}
        Who goes first, and who is preempted last.
    scheduler_reserve_full_isl : bool
        Admit a prompt only where all of it fits, not just its first chunk.
    long_prefill_token_threshold : int
        Most tokens of one request in a step, while there is another one, running or waiting; 0 for no limit.
    watermark : float
        Share of blocks that admission leaves free while something runs.
    async_scheduling : bool
        Decide a step while the one before runs, as if its tokens were there: no time is lost between steps, and who
        arrives meanwhile waits a step longer.
    limit_alone : bool
        Whether `long_prefill_token_threshold` also holds for a request that has the engine for itself; vLLM 0.33 gives
        such a request the whole budget, versions before it did not. No argument of vLLM.
    max_num_active_seqs : int, optional
        Requests that may run at once, if fewer than `max_num_seqs`, which is what vLLM reserves buffers for.
    max_loras, max_cpu_loras : int
        LoRA adapters in slots on the device at once, 0: none can be used; those that the host's memory holds, at least
        as many (None: as many). A request whose adapter has no slot waits, and those behind it may pass.
    prefix_cache_retention_interval : int, optional
        Of layers with a window: tokens after which the prefix cache keeps the last window each time, a multiple of
        `block_size`; 0: it keeps that of a prompt's end and of where prompts were seen to part; None: everything.
    pipeline_parallel_size : int
        Pipeline stages. As many steps are under way at once (one more with `async_scheduling`), and a request is in one
        of them at a time.
    sliding_window : int
        Tokens that the layers of `window_groups` see; 0: no layer has a window. No argument of vLLM: the model's.
    full_groups, window_groups : int
        Groups of layers with blocks of their own that hold all tokens, and those of the window
        (`DecoderSpec.kv_groups`); a token takes a slot in each.
    """

    # Defaults of vLLM 0.33's API server on devices of 70 to 160 GiB (other than A100); max_model_len is the model's.
    num_blocks: int
    block_size: int = 16
    max_model_len: int = 8192
    max_num_batched_tokens: int = 8192
    max_num_seqs: int = 1024
    enable_prefix_caching: bool = True
    enable_chunked_prefill: bool = True
    policy: str = "fcfs"
    scheduler_reserve_full_isl: bool = True
    long_prefill_token_threshold: int = 0
    watermark: float = 0.0
    async_scheduling: bool = False
    limit_alone: bool = False
    sliding_window: int = 0
    full_groups: int = 1
    window_groups: int = 0
    max_num_active_seqs: int | None = None
    max_loras: int = 0
    max_cpu_loras: int | None = None
    prefix_cache_retention_interval: int | None = 0
    pipeline_parallel_size: int = 1

    def __post_init__(self) -> None:
        for name in ("num_blocks", "block_size", "max_model_len", "max_num_batched_tokens", "max_num_seqs"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"{name}: expected an integer >= 1 (got {value!r})")
        if self.policy not in POLICIES:
            raise InputError(f"policy: expected one of {', '.join(POLICIES)} (got {self.policy!r})")
        limit: Any = self.long_prefill_token_threshold
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
            raise InputError(f"long_prefill_token_threshold: expected an integer >= 0 (got {limit!r})")
        for name in (
            "enable_prefix_caching", "enable_chunked_prefill", "scheduler_reserve_full_isl", "async_scheduling",
            "limit_alone",
        ):  # fmt: skip
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name}: expected true or false (got {getattr(self, name)!r})")
        share: Any = self.watermark
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
            raise InputError(f"watermark: expected a share of the blocks in [0, 1) (got {share!r})")
        for name in ("sliding_window", "full_groups", "window_groups", "max_loras"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise InputError(f"{name}: expected an integer >= 0 (got {value!r})")
        active, host = self.max_num_active_seqs, self.max_cpu_loras
        if active is not None and not (type(active) is int and 1 <= active <= self.max_num_seqs):
            raise InputError(
                f"max_num_active_seqs: expected an integer from 1 to max_num_seqs {self.max_num_seqs} (got {active!r})"
            )
        if host is not None and not (type(host) is int and host >= self.max_loras > 0):
            raise InputError(
                f"max_cpu_loras: expected at least max_loras {self.max_loras}, and that above 0 (got {host!r})"
            )
        if not self.full_groups + self.window_groups or bool(self.window_groups) != bool(self.sliding_window):
            raise InputError(
                "sliding_window, full_groups, window_groups: expected at least one group, and a window for groups that "
                f"have one (got {self.sliding_window}, {self.full_groups} and {self.window_groups})"
            )
        every = self.prefix_cache_retention_interval
        if every is not None and (type(every) is not int or every < 0 or every % self.block_size):
            raise InputError(
                f"prefix_cache_retention_interval: expected a multiple of block_size {self.block_size}, 0 or None "
                f"(got {every!r})"
            )
        if every and not self.window_groups:
            raise InputError("prefix_cache_retention_interval: is for layers with a sliding_window, and none has one")
        if type(self.pipeline_parallel_size) is not int or self.pipeline_parallel_size < 1:
            raise InputError(f"pipeline_parallel_size: expected an integer >= 1 (got {self.pipeline_parallel_size!r})")

    @property
    def most_running(self) -> int:
        """Requests that may run at once."""
        return self.max_num_seqs if self.max_num_active_seqs is None else self.max_num_active_seqs

    @property
    def batches(self) -> int:
        """Steps that are decided and not completed, at most (vLLM's ``max_concurrent_batches``)."""
        return self.pipeline_parallel_size + self.async_scheduling

    @property
    def groups(self) -> int:
        """Groups of layers that have blocks of their own."""
        return self.full_groups + self.window_groups

    @property
    def window_most(self) -> int:
        """Blocks that vLLM wants free at most in a group with a window: those of the window and of the chunks of all
        steps under way, and one as its ends need not fit blocks
        (`SlidingWindowSpec.max_admission_blocks_per_request`)."""
        held = min(self.sliding_window - 1 + self.batches * self.max_num_batched_tokens, self.max_model_len)
        return -(-held // self.block_size) + 1

    def behind(self, computed: int) -> int:
        """Blocks of a group whose tokens no later one sees, when so many are computed."""
        if not self.window_groups:
            return 0
        return max(0, computed - self.sliding_window + 1) // self.block_size

    def whole(self, tokens: int) -> int:
        """Blocks that vLLM wants free for a prompt of so many tokens, none of them cached, to be admitted whole."""
        need = -(-tokens // self.block_size)
        return self.full_groups * need + self.window_groups * min(need, self.window_most)


@dataclass(slots=True, eq=False)
class V1Request:
    """A request under way.

    Parameters
    ----------
    request : LLMRequest
        What was asked.
    order : int
        Counts requests in order of arrival.
    length, computed : int
        Tokens that it has, and tokens whose keys and values are in the cache.
    tokens : list
        Its tokens' identities, where they were given; generated ones are its own.
    contents : list
        Contents of its full blocks.
    blocks : list of HashedBlock
        Its block table; empty where layers form groups.
    tables : list of list of HashedBlock or None
        Where they form groups, the table of each (`memory.group_tables`); None where a block lies behind the window.
    slots : int
        Blocks that each group has had.
    junction : int
        Tokens up to which groups that hold all tokens knew its prompt, where those with a window did not; else 0.
    flying : int
        Tokens of steps under way, where several are.
    eligible : int
        First step that may decode it again (asynchronous pipelines).
    gone : int
        Blocks of each group with a window that were given back.
    published : int
        Blocks of it that can be found by others.
    resumed : bool
        Whether it was preempted before.
    awaited : int
        Tokens that steps under way will give it.
    aborted : bool
        Whether it left before its end.
    drafts : int
        Tokens that a draft proposed, to be verified with the next one (`decoding.speculative`).
    """

    request: LLMRequest
    order: int
    length: int
    computed: int = 0
    tokens: list[Hashable] = field(default_factory=list[Hashable])
    contents: list[Hashable] = field(default_factory=list[Hashable])
    blocks: list[HashedBlock] = field(default_factory=list[HashedBlock])
    tables: list[list[HashedBlock | None]] = field(default_factory=list[list[HashedBlock | None]])
    slots: int = 0
    junction: int = 0
    flying: int = 0
    eligible: int = 0
    gone: int = 0
    published: int = 0
    resumed: bool = False
    awaited: int = 0
    aborted: bool = False
    drafts: int = 0

    @property
    def holds(self) -> bool:
        """Whether it has blocks."""
        return bool(self.blocks or self.tables)

    @property
    def output(self) -> int:
        """Tokens that were generated."""
        return self.length - self.request.prompt

    @property
    def rank(self) -> tuple[int, int]:
        """What the priority policy sorts by."""
        return self.request.priority, self.order


@dataclass(slots=True, repr=False)
class V1Step(Shown):
    """What one scheduling decision asks of the engine.

    Parameters
    ----------
    scheduled : dict of V1Request to int
        Tokens to compute for each request, in order.
    preempted : list of V1Request
        Requests that lost their blocks.
    new, resumed : list of V1Request
        Requests that were admitted for the first time, or again after a preemption.
    cached : dict of V1Request to int
        For admitted requests, tokens that the prefix cache held.
    samples : list of V1Request
        Requests that get a token, since all of their tokens are computed by the end of this step.
    loads, copies : int
        LoRA adapters to read from the disk, and to copy into a slot, before the model runs.
    """

    scheduled: dict[V1Request, int] = field(default_factory=dict[V1Request, int])
    preempted: list[V1Request] = field(default_factory=list[V1Request])
    new: list[V1Request] = field(default_factory=list[V1Request])
    resumed: list[V1Request] = field(default_factory=list[V1Request])
    cached: dict[V1Request, int] = field(default_factory=dict[V1Request, int])
    samples: list[V1Request] = field(default_factory=list[V1Request])
    loads: int = 0
    copies: int = 0
