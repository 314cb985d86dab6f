"""Where the slots of a KV memory go, as Fig. 5.2 of the vLLM thesis counts them, at any time, for every policy.

A slot holds the keys and values of one token. §5.3.1 tells the wastes apart: slots reserved for tokens still to come,
internal fragmentation (slots of a request that its tokens will never fill), external fragmentation (slots that the
allocator cannot give to anybody).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ....errors import InputError
from ..policy.fastertransformer import FasterTransformerScheduler
from ..policy.orca import OrcaScheduler
from ..policy.request import Status
from ..policy.vllm02 import Vllm02Scheduler
from ..policy.vllm06 import Vllm06Scheduler
from ..policy.vllm_v1 import V1Scheduler

__all__ = ["MemoryUse", "memory_use"]


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Shares of all KV slots; they sum to 1.

    Parameters
    ----------
    used : float
        Slots that hold the state of a token: the memory that is effective.
    reserved : float
        Slots that a later token of their holder will fill.
    internal : float
        Slots of a request that it will never fill: over-provisioning, the rest of its last block, and the rows of
        requests that are done but must wait for their batch.
    rounding : float
        Slots beyond what was asked for, because chunks are powers of two.
    free : float
        Slots that nobody holds.

    Raises
    ------
    InputError
        If a share is negative or they do not sum to 1.
    """

    used: float
    reserved: float
    internal: float
    rounding: float
    free: float

    def __post_init__(self) -> None:
        shares = self.shares
        if not (min(shares) >= 0 and abs(sum(shares) - 1) < 1e-9):  # five quotients of integers: rounding alone
            raise InputError(f"memory use: expected shares >= 0 that sum to 1 (got {shares})")

    @property
    def shares(self) -> tuple[float, float, float, float, float]:
        """All of them, in the order of the fields."""
        return self.used, self.reserved, self.internal, self.rounding, self.free

    @property
    def external(self) -> float:
        """Rounding, and what nobody holds: Fig. 5.2's "external fragmentation & others" while requests wait."""
        return self.rounding + self.free

    @property
    def held(self) -> float:
        """Slots that somebody holds."""
        return 1.0 - self.free

    @classmethod
    def of_slots(cls, total: int, used: int, reserved: int, internal: int, rounding: int = 0) -> MemoryUse:
        """Shares from counts of slots; the rest of `total` is free."""
        free = total - used - reserved - internal - rounding
        return cls(used / total, reserved / total, internal / total, rounding / total, free / total)

    @classmethod
    def mean(cls, parts: Sequence[MemoryUse], weights: Sequence[float] | None = None) -> MemoryUse:
        """Weighted average, by time for instance.

        Raises
        ------
        InputError
            If there is nothing to average.
        """
        weights = [1.0] * len(parts) if weights is None else weights
        total = sum(weights)
        if len(parts) != len(weights) or not total > 0:
            raise InputError(f"memory use: {len(parts)} parts and weights of {total} in all have no average")
        columns = zip(*(p.shares for p in parts), strict=True)
        return cls(*(sum(w * x for w, x in zip(weights, column, strict=True)) / total for column in columns))


def memory_use(
    scheduler: Vllm02Scheduler | Vllm06Scheduler | V1Scheduler | OrcaScheduler | FasterTransformerScheduler,
) -> MemoryUse:
    """Count what the slots of a policy's KV memory hold. Call it after `schedule`: it counts that step's tokens.

    Raises
    ------
    InputError
        On an object that is none of the policies.
    """
    for kind, count in COUNTERS.items():
        if isinstance(scheduler, kind):
            return count(scheduler)
    raise InputError(f"memory use: expected a scheduler (got {type(scheduler).__name__})")


def _orca(scheduler: OrcaScheduler) -> MemoryUse:
    used = reserved = internal = rounding = 0
    for r in scheduler.running:
        n, length, final = len(r.chunks), r.length, r.final
        used += n * length
        reserved += n * (final - length)
        internal += n * (r.span - final)
        for chunk in r.chunks:
            rounding += chunk.size - chunk.wanted
    return MemoryUse.of_slots(scheduler.memory.slots, used, reserved, internal, rounding)


def _fastertransformer(scheduler: FasterTransformerScheduler) -> MemoryUse:
    used = reserved = internal = 0
    for r in scheduler.running:
        n = r.request.best_of
        used += 0 if r.finished else n * r.length
        reserved += n * (r.final - r.length)
        internal += n * (r.span if r.finished else r.span - r.final)
    return MemoryUse.of_slots(scheduler.config.num_slots, used, reserved, internal)


def _vllm02(scheduler: Vllm02Scheduler) -> MemoryUse:
    pages = _Pages(scheduler.memory.block_size)
    for tokens, table in zip(scheduler.config.prefixes, scheduler.memory.prefixes, strict=True):
        pages.add(table, tokens, tokens)
    for group in scheduler.running:
        # vLLM 0.2 stops a sequence only when it has become longer than max_model_len.
        final = min(group.request.prompt + group.request.output, scheduler.config.max_model_len + 1)
        for sequence in group.having(Status.RUNNING):
            pages.add(scheduler.memory.tables[sequence.number], sequence.length, final)
    return pages.use(scheduler.memory.gpu.size)


def _vllm06(scheduler: Vllm06Scheduler) -> MemoryUse:
    pages = _Pages(scheduler.config.block_size)
    for r in scheduler.running:
        final = min(r.request.prompt + r.request.output, scheduler.config.max_model_len + 1)  # as 0.2
        pages.add(r.blocks, r.filled, final)
    return pages.use(scheduler.memory.gpu.size)


def _v1(scheduler: V1Scheduler) -> MemoryUse:
    pages = _Pages(scheduler.config.block_size)
    for r in scheduler.running:
        final = min(r.request.prompt + r.request.output, scheduler.config.max_model_len)
        pages.add(r.blocks, r.computed, final)
        for table in r.tables:
            pages.add_window(table, r.computed, final)
    return pages.use(scheduler.pool.size - 1)  # the null block holds nothing


COUNTERS: dict[type, Callable[[Any], MemoryUse]] = {
    OrcaScheduler: _orca,
    FasterTransformerScheduler: _fastertransformer,
    Vllm02Scheduler: _vllm02,
    Vllm06Scheduler: _vllm06,
    V1Scheduler: _v1,
}
"""Policy -> who counts its slots."""


class _Pages:
    """Counts blocks; one that several sequences share counts once, as full as the one that fills it most."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self._blocks = self._used = self._reserved = 0
        self._shared: dict[int, tuple[int, int]] = {}

    def add(self, table: Iterable[Any], length: int, final: int) -> None:
        """A sequence's blocks, with `length` tokens now and `final` in the end."""
        blocks = list(table)
        own = [i for i, block in enumerate(blocks) if block.shares == 1]
        if len(own) == len(blocks):  # the usual case, without a look at each block
            slots = len(blocks) * self.block_size
            self._count(len(blocks), min(length, slots), min(max(final, length), slots))
            return
        for i, block in enumerate(blocks):
            now = min(max(length - i * self.block_size, 0), self.block_size)
            then = min(max(final - i * self.block_size, now), self.block_size)
            if block.shares == 1:
                self._count(1, now, then)
            else:
                old = self._shared.get(block.number, (0, 0))
                self._shared[block.number] = max(old[0], now), max(old[1], then)

    def add_window(self, table: Iterable[Any], length: int, final: int) -> None:
        """The same of a table whose blocks may have gone (None)."""
        for k, block in enumerate(table):
            if block is not None:
                begin = k * self.block_size
                self.add([block], max(0, length - begin), max(0, final - begin))

    def use(self, blocks: int) -> MemoryUse:
        """Shares of a pool of so many blocks."""
        for now, then in self._shared.values():
            self._count(1, now, then)
        self._shared = {}
        internal = self._blocks * self.block_size - self._used - self._reserved
        return MemoryUse.of_slots(blocks * self.block_size, self._used, self._reserved, internal)

    def _count(self, blocks: int, now: int, then: int) -> None:
        self._blocks += blocks
        self._used += now
        self._reserved += then - now
