"""Sarathi-Serve's scheduler: chunked prefills and stall-free batches (Agrawal et al., OSDI 2024, Algorithm 3).

An iteration takes every decode first, so that no prompt ever stalls one; what `chunk_size` leaves goes to prompts that
are under way, and then to new ones, first come, first served. Memory is paged: a prompt gets all of its blocks when it
is admitted, a decode one more whenever its token needs it; preemption is by recomputation.

The rules for memory are those of the authors' system (microsoft/sarathi-serve), which took them over from the paper's
vLLM. Without memory pressure the decisions are those of today's vLLM with ``max_num_batched_tokens = chunk_size``.
Where the two differ:

- Blocks: V1 sees that a whole prompt fits, and takes blocks chunk by chunk; here they are taken at once.
- A decode goes on only while a block is free, also if its token needs none; V1 asks only for what is needed.
- Admission leaves a watermark free (1 % by default), also where nothing runs; V1 by default none.
- V1 admits nobody in a step that preempts; here who fits is admitted, perhaps at once who was preempted.
- The latest request that was not yet looked at is preempted: a prompt under way that was passed over before later
  decodes is safe, in V1 it is not.
- No prefix caching.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....errors import InputError
from .request import LLMRequest
from .vllm_v1 import V1Scheduler
from .vllm_v1.state import V1Config, V1Request, V1Step

__all__ = ["SarathiConfig", "SarathiScheduler", "sarathi_cannot", "sarathi_fatal"]


@dataclass(frozen=True, slots=True)
class SarathiConfig:
    """Engine arguments.

    Parameters
    ----------
    num_gpu_blocks : int
        Blocks of KV memory.
    block_size : int
        Tokens in a block.
    chunk_size : int
        Tokens of an iteration, decodes included: the token budget of the paper's Algorithm 3.
    max_model_len, max_num_seqs : int
        Tokens of a sequence; running requests.
    watermark : float
        Share of blocks that admission leaves free.

    Raises
    ------
    InputError
        On a value out of its range.
    """

    # 512 tokens are the paper's budget for strict SLOs (2,048 for relaxed ones). Longest sequence and running requests
    # are guesses; the longest is the model's to say.
    num_gpu_blocks: int
    block_size: int = 16
    chunk_size: int = 512
    max_model_len: int = 8192
    max_num_seqs: int = 128
    watermark: float = 0.01

    def __post_init__(self) -> None:
        for name in ("num_gpu_blocks", "block_size", "chunk_size", "max_model_len", "max_num_seqs"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"{name}: expected an integer >= 1 (got {value!r})")
        share: Any = self.watermark
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
            raise InputError(f"watermark: expected a share of the blocks in [0, 1) (got {share!r})")


@dataclass(slots=True, eq=False)
class _Request(V1Request):
    prompt: int = 0  # tokens that are one prompt: of who was preempted, those that it had generated too


class SarathiScheduler(V1Scheduler):
    """The policy: knows requests, blocks and steps, and no clock. Life cycle: `add`, `schedule`, `complete`."""

    def __init__(self, config: SarathiConfig) -> None:
        self.rules = config
        blocks = config.num_gpu_blocks + 1  # V1's pool has a null block
        super().__init__(
            V1Config(
                blocks,
                config.block_size,
                config.max_model_len,
                config.chunk_size,
                config.max_num_seqs,
                enable_prefix_caching=False,
            )
        )
        self._watermark = int(config.watermark * config.num_gpu_blocks)

    def add(self, request: LLMRequest) -> V1Request:
        """A request arrives."""
        new = _Request(request, self._count, request.prompt)
        self._count += 1
        self.waiting.append(new)
        return new

    def schedule(self) -> V1Step:
        """Decide the next step."""
        step = V1Step()
        partial = self._decodes(step)
        left = self.rules.chunk_size - len(step.scheduled)
        for request in partial:
            left -= self._chunk(request, left, step)
        self.running += partial
        self._new(step, left)
        for request, tokens in step.scheduled.items():
            request.computed += tokens
            if request.computed == request.length:
                request.awaited += 1
                step.samples.append(request)
        return step

    def _decodes(self, step: V1Step) -> list[_Request]:
        """A token for each request whose prompt is processed; returns those that are set aside, whose is not."""
        queue: list[Any] = sorted(self.running, key=lambda r: r.order)
        partial: list[_Request] = []
        self.running = []
        while queue:
            request = queue.pop(0)
            if request.computed < request.prompt:
                # It has had the blocks of its whole prompt since it was admitted: it competes for budget, not memory.
                partial.append(request)
                continue
            # From the end: the latest to arrive gives up its blocks, the earliest is served first.
            while not self.pool.free_blocks and queue:
                self._preempt(queue.pop(), step)
            if not self.pool.free_blocks:  # nobody later is left to give way
                self._preempt(request, step)
                continue
            self._grow(request, 1)
            step.scheduled[request] = 1
            self.running.append(request)
        return partial

    def _chunk(self, request: _Request, left: int, step: V1Step) -> int:
        """The next part of a prompt, as long as the step allows."""
        tokens = max(0, min(request.prompt - request.computed, left))
        if tokens:
            step.scheduled[request] = tokens
        return tokens

    def _new(self, step: V1Step, left: int) -> None:
        """Waiting requests, in order, until one does not fit."""
        waiting: list[Any] = self.waiting
        while waiting and left > 0 and len(self.running) < self.rules.max_num_seqs:
            request = waiting[0]
            need = -(-request.length // self.rules.block_size)
            if self.pool.free_blocks - need < self._watermark:
                break
            waiting.pop(0)
            request.blocks, request.prompt = self.pool.take(need), request.length
            left -= self._chunk(request, left, step)
            self.running.append(request)
            (step.resumed if request.resumed else step.new).append(request)
            step.cached[request] = 0


def sarathi_cannot(config: SarathiConfig, request: LLMRequest) -> str | None:
    """Why a request can never run to its end, or None."""
    total = request.prompt + request.output
    if request.prompt < config.max_model_len < total:
        return (
            f"its prompt of {request.prompt} and output of {request.output} tokens are longer than max_model_len "
            f"{config.max_model_len}"
        )
    return sarathi_fatal(config, request)


def sarathi_fatal(config: SarathiConfig, request: LLMRequest) -> str | None:
    """Why the policy could not go on with a request, or None."""
    if request.prompt >= config.max_model_len:
        return f"its prompt of {request.prompt} tokens leaves no room for an output in max_model_len " + str(
            config.max_model_len
        )
    longest = min(request.prompt + request.output - 1, config.max_model_len)
    need, room = -(-longest // config.block_size), config.num_gpu_blocks - int(config.watermark * config.num_gpu_blocks)
    if need > room:
        return f"needs {need} blocks, num_gpu_blocks {config.num_gpu_blocks} less the watermark leaves {room}"
    if request.best_of != 1:
        return "best_of: Sarathi takes samples as requests of their own"
    return None
