"""The blocks of one memory in vLLM 0.6.6: a pool whose full blocks are found again, evicted least recently used first.

Rules of its `PrefixCachingBlockAllocator` and `LRUEvictor`: blocks without known content are given out first, the one
that was freed last first; then, of those that nobody uses and whose content is known, the one that was used longest
ago, of equals the one deepest in its sequence. Without caching the first half is all there is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from heapq import heappop, heappush

from ....errors import RunError

__all__ = ["CachedBlock", "CachingPool"]

NEVER = -1.0
"""When a block was used that nobody has used yet."""


class CachedBlock:
    """One block: who shares it, what it holds, and when it was used.

    `depth` counts the tokens up to its end, `used` is a time, and `ready` says whether its content is computed.
    """

    __slots__ = ("content", "depth", "number", "ready", "shares", "used")

    def __init__(self, number: int) -> None:
        self.number = number
        self.shares = self.depth = 0
        self.content: Hashable = None
        self.used, self.ready = NEVER, False

    @property
    def turn(self) -> tuple[float, int, int]:
        """Who is evicted first."""
        return self.used, -self.depth, self.number


class CachingPool:
    """Blocks, those that are free, and where to find each content.

    Parameters
    ----------
    size : int
        Number of blocks.
    caching : bool
        Whether full blocks are found again.
    """

    def __init__(self, size: int, caching: bool) -> None:
        self.size, self.caching = size, caching
        self._free = deque(CachedBlock(i) for i in range(size))
        self._held: dict[Hashable, CachedBlock] = {}
        self._idle: dict[int, tuple[float, int, int]] = {}  # blocks of known content that nobody uses, and their turns
        self._turns: list[tuple[tuple[float, int, int], CachedBlock]] = []  # a heap; outdated turns are passed over
        self._fresh: list[CachedBlock] = []

    @property
    def free_blocks(self) -> int:
        """Blocks that nobody uses, those with known content included."""
        return len(self._free) + len(self._idle)

    def take(self) -> CachedBlock:
        """Take a block; what it held is forgotten."""
        if not self.free_blocks:
            raise RunError("block pool: no block is free; the policy must check before it allocates")
        block = self._free.popleft() if self._free else self._evict()
        block.shares, block.used, block.ready = 1, NEVER, False
        return block

    def _evict(self) -> CachedBlock:
        while True:
            turn, block = heappop(self._turns)
            if self._idle.get(block.number) == turn:
                break
        del self._idle[block.number], self._held[block.content]
        block.content = None
        return block

    def share(self, content: Hashable) -> CachedBlock | None:
        """Share the block that holds this content, computed or not; None if there is none."""
        block = self._held.get(content) if self.caching else None
        if block is not None:
            block.shares += 1
            if block.shares == 1:
                del self._idle[block.number]
                block.used, block.ready = NEVER, True
        return block

    def keep(self, block: CachedBlock, content: Hashable, depth: int) -> CachedBlock:
        """A block has become full: let it be found; or give it back, and share the one that holds the same."""
        if not self.caching:
            return block
        if content not in self._held:
            self._held[content] = block
            block.content, block.depth = content, depth
            self._fresh.append(block)
            return block
        self.release(block)
        shared = self.share(content)
        assert shared is not None
        return shared

    def release(self, block: CachedBlock) -> None:
        """Give back one share of a block."""
        if block.shares < 1:
            raise RunError(f"block pool: block {block.number} is freed twice")
        block.shares -= 1
        if block.shares:
            return
        if block.content is None:
            self._free.appendleft(block)
        else:
            self._idle[block.number] = turn = block.turn
            heappush(self._turns, (turn, block))

    def use(self, blocks: Iterable[CachedBlock], time: float) -> None:
        """Blocks were used last at a time."""
        for block in blocks:
            block.used = time

    def settle(self) -> None:
        """A step is decided: all blocks that became full are taken as computed from now on."""
        for block in self._fresh:
            block.ready = True
        self._fresh.clear()

    def known(self, contents: Sequence[Hashable]) -> int:
        """How many of a sequence's blocks, from the first on, are held and computed."""
        # A binary search, as vLLM has it: where a block is gone and a later one is not, the answer is the search's.
        return bisect_left(contents, True, key=lambda content: not self._ready(content)) if self.caching else 0

    def _ready(self, content: Hashable) -> bool:
        block = self._held.get(content)
        return block is not None and (block.ready or not block.shares)

    def must_take(self, content: Hashable) -> bool:
        """Whether a block of this content would take one that is free."""
        block = self._held.get(content) if self.caching else None
        return block is None or not block.shares
