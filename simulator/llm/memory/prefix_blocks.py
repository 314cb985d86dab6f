"""The KV memory of today's vLLM: blocks found again by the hash of what they hold, evicted least recently used.

Rules of vLLM's V1 block pool: block 0 is the null block and never given out; blocks are taken from the head of one free
queue; a block that is freed goes to its tail if its content is known by a hash, so that it may be found again, and to
its head if not.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from ....errors import InputError, RunError
from ..policy.request import LLMRequest

__all__ = ["HashedBlock", "HashedPool", "block_hashes", "request_contents"]


class HashedBlock:
    """One block: who shares it, what it holds, and its neighbours in the free queue."""

    __slots__ = ("content", "number", "shares")

    def __init__(self, number: int) -> None:
        self.number = number
        self.shares = 0
        self.content: Hashable = None


class HashedPool:
    """Blocks, the queue of free ones, and where to find each content.

    Parameters
    ----------
    size : int
        Number of blocks, the null block included.
    caching : bool
        Whether full blocks are found again.

    Raises
    ------
    InputError
        If `size` leaves no usable block.
    """

    def __init__(self, size: int, caching: bool = True) -> None:
        if isinstance(size, bool) or not isinstance(size, int) or size < 2:
            raise InputError(f"num_blocks: expected at least 2, one of them the null block (got {size!r})")
        self.size = size
        self.caching = caching
        self.blocks = [HashedBlock(i) for i in range(size)]
        # Two ends are popped and pushed, and a block found again leaves the middle: an ordered dict does all in O(1).
        self._free: _Queue = _Queue(self.blocks[1:])
        self._found: dict[Hashable, dict[int, HashedBlock]] = {}

    @property
    def free_blocks(self) -> int:
        """Blocks without a sharer, those with known content included."""
        return len(self._free)

    def find(self, content: Hashable) -> HashedBlock | None:
        """A block that holds this content."""
        held = self._found.get(content)
        return next(iter(held.values())) if held else None

    def touch(self, blocks: Iterable[HashedBlock]) -> None:
        """Share blocks that were found; those that were free leave the queue."""
        for block in blocks:
            if not block.shares:
                self._free.remove(block)
            block.shares += 1

    def take(self, count: int) -> list[HashedBlock]:
        """Take blocks from the head of the queue; what they held is forgotten."""
        if count > len(self._free):
            raise RunError(f"block pool: {count} blocks asked for, {len(self._free)} free; the policy must check first")
        taken = [self._free.pop() for _ in range(count)]
        for block in taken:
            self._forget(block)
            block.shares = 1
        return taken

    def publish(self, block: HashedBlock, content: Hashable) -> None:
        """Let a full block be found by its content."""
        block.content = content
        self._found.setdefault(content, {})[block.number] = block

    def release(self, blocks: Sequence[HashedBlock]) -> None:
        """Drop one share of each block, given in the order in which they should be evicted."""
        free: list[HashedBlock] = []
        for block in blocks:
            if block.shares < 1:
                raise RunError(f"block pool: block {block.number} is freed twice")
            block.shares -= 1
            if not block.shares:
                free.append(block)
        self._free.prepend([b for b in free if b.content is None])
        self._free.append([b for b in free if b.content is not None])

    def _forget(self, block: HashedBlock) -> None:
        if block.content is None:
            return
        held = self._found[block.content]
        del held[block.number]
        if not held:
            del self._found[block.content]
        block.content = None


class _Queue:
    """A queue with two ends and removal from the middle, O(1) each: a doubly linked list in two arrays."""

    def __init__(self, blocks: Sequence[HashedBlock]) -> None:
        self._blocks = {b.number: b for b in blocks}
        self._next: dict[int, int] = {}
        self._previous: dict[int, int] = {}
        self._next[_END] = self._previous[_END] = _END
        self._size = 0
        self.append(blocks)

    def __len__(self) -> int:
        return self._size

    def _insert(self, number: int, before: int) -> None:
        last = self._previous[before]
        self._next[last] = self._previous[before] = number
        self._previous[number], self._next[number] = last, before
        self._size += 1

    def append(self, blocks: Iterable[HashedBlock]) -> None:
        for block in blocks:
            self._insert(block.number, _END)

    def prepend(self, blocks: Sequence[HashedBlock]) -> None:
        head = self._next[_END]
        for block in blocks:
            self._insert(block.number, head)

    def remove(self, block: HashedBlock) -> None:
        last, after = self._previous.pop(block.number), self._next.pop(block.number)
        self._next[last], self._previous[after] = after, last
        self._size -= 1

    def pop(self) -> HashedBlock:
        block = self._blocks[self._next[_END]]
        self.remove(block)
        return block


_END = -1
"""Stands before the head and after the tail of a queue."""


def block_hashes(
    tokens: Sequence[Hashable], block_size: int, known: Sequence[Hashable] = (), keys: Hashable = None
) -> list[Hashable]:
    """Contents of the full blocks of a token sequence beyond the known ones; each stands for all tokens up to its end.

    Parameters
    ----------
    tokens : sequence
        The tokens.
    block_size : int
        Tokens in a block.
    known : sequence
        Contents of the first blocks, where they were computed before.
    keys : hashable
        What else tells sequences apart (`LLMRequest.keys`). vLLM puts the salt into the first block's hash and the
        adapter into each; as a hash contains the one before it, both are in all.
    """
    found: list[Hashable] = []
    last = known[-1] if known else keys
    for start in range(len(known) * block_size, len(tokens) - block_size + 1, block_size):
        last = hash((last, tuple(tokens[start : start + block_size])))
        found.append(last)
    return found


def request_contents(
    request: LLMRequest, tokens: Sequence[Hashable], length: int, block_size: int, known: Sequence[Hashable] = ()
) -> list[Hashable]:
    """Contents of the full blocks of a request beyond the known ones.

    Parameters
    ----------
    request : LLMRequest
        Whose they are.
    tokens : sequence
        Its tokens; where these are not known (empty), blocks are told apart by text and place.
    length : int
        How many it has.
    block_size : int
        Tokens in a block.
    known : sequence
        Contents of the first blocks.
    """
    if tokens:
        return block_hashes(tokens, block_size, known, request.keys)
    text: Hashable = request.id
    if request.text is not None:
        text = ("text", request.text) if request.keys is None else ("text", request.text, request.keys)
    return [(text, k) for k in range(len(known), length // block_size)]
