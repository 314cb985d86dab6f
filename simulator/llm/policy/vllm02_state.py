"""What the schedulers of the paper's vLLM and of vLLM 0.2 work on: their options and steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from ....errors import InputError
from .request import LLMRequest, SequenceGroup

__all__ = ["PagedConfig", "Vllm02Config", "Vllm02Step"]


@dataclass(frozen=True, slots=True)
class PagedConfig:
    """Engine arguments of the first engines with blocks, by vLLM's own names.

    Parameters
    ----------
    num_gpu_blocks, num_cpu_blocks, block_size, watermark
        The KV memory: see `BlockManager`.
    max_model_len : int
        Tokens that a sequence may have.
    max_num_batched_tokens : int, optional
        Tokens in a step: of 0.2 padded prompt tokens, by default ``max(2048, max_model_len)``.
    max_num_seqs : int
        Sequences that may run at once.
    preemption_mode : {"recompute", "swap"}, optional
        What becomes of a preempted group of one sequence; as in vLLM, recomputed unless said otherwise. Groups of
        several sequences are always swapped.
    prefixes : tuple of int
        Tokens of each prefix that many prompts share (vLLM §5.4.4). Blocks for their keys and values are reserved for
        good; prompts whose `LLMRequest.shared_prefix` names one use these, with a copy of its last block unless that
        is full, and compute only the rest. The 0.2.7 that was released has no such option; the paper's engine had.

    Raises
    ------
    InputError
        On a value out of its range; what is wrong with the memory `BlockManager` says.
    """

    # Defaults of vLLM 0.2.7; of the model OPT's longest sequence. The 4 GiB of swap space are the caller's to count.
    num_gpu_blocks: int
    num_cpu_blocks: int = 0
    block_size: int = 16
    max_model_len: int = 2048
    max_num_batched_tokens: int | None = None
    max_num_seqs: int = 256
    watermark: float = 0.01
    preemption_mode: str | None = None
    prefixes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("max_model_len", "max_num_seqs"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"{name}: expected an integer >= 1 (got {value!r})")
        value = self.max_num_batched_tokens
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise InputError(f"max_num_batched_tokens: expected an integer >= 1 (got {value!r})")
        if self.preemption_mode not in (None, "recompute", "swap"):
            raise InputError(f"preemption_mode: expected 'recompute' or 'swap' (got {self.preemption_mode!r})")
        given: Any = self.prefixes
        if not isinstance(given, tuple | list) or any(
            isinstance(p, bool) or not isinstance(p, int) or not 0 < p < self.max_model_len for p in given
        ):
            raise InputError(
                f"prefixes: expected lengths of at least one token, below max_model_len {self.max_model_len} "
                f"(got {given!r})"
            )
        object.__setattr__(self, "prefixes", tuple(given))

    @property
    def token_budget(self) -> int:
        """Tokens in a step."""
        return self.max_num_batched_tokens or max(2048, self.max_model_len)

    def prefix_tokens(self, request: LLMRequest) -> int:
        """Prompt tokens of a request whose keys and values are in reserved blocks."""
        return 0 if request.shared_prefix is None or not self.prefixes else self.prefixes[request.shared_prefix]

    def prefix_cannot(self, request: LLMRequest) -> str | None:
        """Why there is no such shared prefix, or None."""
        place = request.shared_prefix
        if place is None or not self.prefixes:
            return None
        if place >= len(self.prefixes):
            return f"shared_prefix {place}: prefixes has {len(self.prefixes)}"
        if request.prompt <= self.prefixes[place]:
            return (
                f"its prompt of {request.prompt} tokens does not go beyond its shared prefix of {self.prefixes[place]}"
            )
        return None


@dataclass(frozen=True, slots=True)
class Vllm02Config(PagedConfig):
    """Engine arguments of vLLM 0.2.7.

    Parameters
    ----------
    max_paddings : int
        Padding tokens in a prompt step. The others are those of `PagedConfig`.

    Raises
    ------
    InputError
        On a value out of its range.
    """

    max_paddings: int = 256

    def __post_init__(self) -> None:
        PagedConfig.__post_init__(self)  # by name: a class with slots is made twice, and `super()` sees the first
        value = self.max_paddings
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InputError(f"max_paddings: expected an integer >= 0 (got {value!r})")


Pairs = list[tuple[int, int]]


@dataclass(slots=True)
class Vllm02Step:
    """What one scheduling decision asks of the engine.

    Parameters
    ----------
    kind : {"prompt", "decode", "mixed", "idle"}
        Prompts are processed, or every running sequence gets a token, or both, or there is nothing to do.
    scheduled : list of SequenceGroup
        The groups, in order.
    prompts : int
        How many of them, the last ones, are prompts.
    num_batched_tokens : int
        Tokens in the batch, a prompt batch's padding included.
    swap_out, swap_in, copies : list of (int, int)
        Blocks to move and to copy before the model runs.
    ignored : list of SequenceGroup
        Requests that can never run.
    preempted : list of SequenceGroup
        Groups that lost their blocks, to be recomputed or swapped in later.
    """

    kind: Literal["prompt", "decode", "mixed", "idle"] = "idle"
    scheduled: list[SequenceGroup] = field(default_factory=list[SequenceGroup])
    prompts: int = 0
    num_batched_tokens: int = 0
    swap_out: Pairs = field(default_factory=list[tuple[int, int]])
    swap_in: Pairs = field(default_factory=list[tuple[int, int]])
    copies: Pairs = field(default_factory=list[tuple[int, int]])
    ignored: list[SequenceGroup] = field(default_factory=list[SequenceGroup])
    preempted: list[SequenceGroup] = field(default_factory=list[SequenceGroup])
