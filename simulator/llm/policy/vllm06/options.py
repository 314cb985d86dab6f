"""The options of vLLM 0.6.6's scheduler."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .....errors import InputError

__all__ = ["Vllm06Config"]

POLICIES = ("fcfs", "priority")
MODES = (None, "recompute", "swap")


@dataclass(frozen=True, slots=True)
class Vllm06Config:
    """Engine arguments, by vLLM's own names.

    Parameters
    ----------
    num_gpu_blocks, num_cpu_blocks, block_size
        Blocks of KV memory on the device, and on the host for what is swapped; tokens in a block.
    max_model_len : int
        Tokens that a sequence may have.
    max_num_batched_tokens : int, optional
        Tokens in a step that are computed; by default 2,048, and without chunked prefill at least `max_model_len`.
    max_num_seqs : int
        Requests that may run at once.
    enable_prefix_caching : bool
        Find full blocks again by their content.
    enable_chunked_prefill : bool
        Split prompts over steps, beside decodes; else a step computes whole prompts, or decodes.
    policy : {"fcfs", "priority"}
        ``"priority"``: waiting and running requests are sorted by priority and arrival, and who is more urgent and has
        no room preempts who is less. vLLM 0.6.6 does not look at it with chunked prefill.
    preemption_mode : {"recompute", "swap"}, optional
        What becomes of a preempted request; recomputed unless said otherwise.
    delay_factor : float
        A prompt waits until the oldest one has waited this many times the last prompt step's time, unless nothing runs
        (``--scheduler-delay-factor``).
    num_lookahead_slots : int
        Slots of each decode beyond its newest token, as speculative decoding wants them.
    watermark : float
        Share of the device's blocks that admission and swapping in leave free. No argument of vLLM: 0.01 there.
    max_loras : int
        LoRA adapters in slots at once, 0: none can be used. A request whose adapter has no slot waits, and those behind
        it may pass.

    Raises
    ------
    InputError
        On a value out of its range, or options that vLLM 0.6.6 refuses or fails with.
    """

    # Defaults of vLLM 0.6.6; as in `Vllm02Config` the model's length is OPT's, and the 4 GiB of swap space are the
    # caller's to count. vLLM turns chunked prefill on by itself for models of more than 32,768 tokens.
    num_gpu_blocks: int
    num_cpu_blocks: int = 0
    block_size: int = 16
    max_model_len: int = 2048
    max_num_batched_tokens: int | None = None
    max_num_seqs: int = 256
    enable_prefix_caching: bool = False
    enable_chunked_prefill: bool = False
    policy: str = "fcfs"
    preemption_mode: str | None = None
    delay_factor: float = 0.0
    num_lookahead_slots: int = 0
    watermark: float = 0.01
    max_loras: int = 0

    def __post_init__(self) -> None:
        for name, least in (
            ("num_gpu_blocks", 1), ("num_cpu_blocks", 0), ("block_size", 1), ("max_model_len", 1),
            ("max_num_batched_tokens", 1), ("max_num_seqs", 1), ("num_lookahead_slots", 0), ("max_loras", 0),
        ):  # fmt: skip
            value = getattr(self, name)
            if value is None and name == "max_num_batched_tokens":
                continue
            if type(value) is not int or value < least:
                raise InputError(f"{name}: expected an integer >= {least} (got {value!r})")
        for name in ("enable_prefix_caching", "enable_chunked_prefill"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name}: expected true or false (got {getattr(self, name)!r})")
        if self.policy not in POLICIES:
            raise InputError(f"policy: expected one of {', '.join(POLICIES)} (got {self.policy!r})")
        if self.preemption_mode not in MODES:
            raise InputError(f"preemption_mode: expected 'recompute' or 'swap' (got {self.preemption_mode!r})")
        factor: Any = self.delay_factor
        if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 <= factor < math.inf:
            raise InputError(f"delay_factor: expected a finite factor >= 0 (got {factor!r})")
        share: Any = self.watermark
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
            raise InputError(f"watermark: expected a share of the blocks in [0, 1) (got {share!r})")
        self._go_together()

    def _go_together(self) -> None:
        if self.preemption_mode == "swap" and not self.num_cpu_blocks:
            raise InputError("preemption_mode: 'swap' needs room on the host; give num_cpu_blocks (got 0)")
        if self.policy == "priority" and self.preemption_mode == "swap":
            raise InputError("preemption_mode: vLLM 0.6.6 cannot swap under policy 'priority'; leave it out")
        if self.policy == "priority" and self.enable_chunked_prefill:
            raise InputError("policy: vLLM 0.6.6 has no priorities with chunked prefill; turn that off")
        budget, longest = self.token_budget, self.max_model_len
        if budget < longest and not self.enable_chunked_prefill:
            raise InputError(
                f"max_num_batched_tokens: without chunked prefill expected at least max_model_len {longest} "
                f"(got {budget})"
            )
        if budget < self.max_num_seqs:
            raise InputError(
                f"max_num_batched_tokens: expected at least max_num_seqs {self.max_num_seqs} (got {budget})"
            )
        if self.enable_chunked_prefill and self.enable_prefix_caching and budget % self.block_size:
            raise InputError(
                "max_num_batched_tokens: with chunked prefill and prefix caching expected a multiple of block_size "
                f"{self.block_size} (got {budget})"
            )

    @property
    def token_budget(self) -> int:
        """Tokens in a step that are computed."""
        if self.max_num_batched_tokens is not None:
            return self.max_num_batched_tokens
        return 2048 if self.enable_chunked_prefill else max(2048, self.max_model_len)

    @property
    def prompt_limit(self) -> int:
        """Tokens that a prompt may ask for in one step; a longer one is refused."""
        return self.max_model_len if self.enable_chunked_prefill else min(self.max_model_len, self.token_budget)
