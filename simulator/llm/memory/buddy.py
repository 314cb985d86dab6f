"""A buddy allocator over the slots of a KV memory: contiguous chunks of powers of two, as the vLLM paper gives Orca.

Knowlton's buddies (Knuth, TAOCP 1, §2.5): a chunk of 2^k slots starts at a multiple of 2^k, is split in halves until it
is as small as will do, and joins its other half again when both are free. Taking and giving back touch each size at
most once, so both are O(log n).
"""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
from dataclasses import dataclass

from ....errors import InputError, RunError

__all__ = ["BuddyAllocator", "Chunk", "chunks_in"]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Contiguous slots that somebody holds.

    Parameters
    ----------
    start : int
        First slot, a multiple of `size`.
    size : int
        Slots in it, a power of two.
    wanted : int
        Slots that were asked for; the rest is what rounding to a power of two wastes.
    """

    start: int
    size: int
    wanted: int

    @property
    def rounding(self) -> int:
        """Slots beyond those that were asked for."""
        return self.size - self.wanted


class BuddyAllocator:
    """Chunks of powers of two over any number of slots.

    A pool that is no power of two starts as its binary digits, largest first: 15,728 slots are chunks of 8192, 4096,
    2048, 1024, 256, 64, 32 and 16. Of the smallest free chunks that will do, the one freed last is taken.

    Parameters
    ----------
    slots : int
        Slots of the pool.

    Raises
    ------
    InputError
        If there is not one slot.
    """

    def __init__(self, slots: int) -> None:
        if isinstance(slots, bool) or not isinstance(slots, int) or slots < 1:
            raise InputError(f"slots: expected an integer >= 1 (got {slots!r})")
        self.slots = slots
        self.free_slots = slots
        self._held: dict[int, Chunk] = {}
        # Insertion order makes the dicts stacks from which a buddy can be taken in the middle.
        self._free: list[dict[int, None]] = [{} for _ in range(slots.bit_length())]
        start = 0
        for order in reversed(range(slots.bit_length())):
            if slots >> order & 1:
                self._free[order][start] = None
                start += 1 << order

    @property
    def held(self) -> list[Chunk]:
        """Chunks that somebody holds, in the order of their allocation."""
        return list(self._held.values())

    @property
    def free_chunks(self) -> list[tuple[int, int]]:
        """Start and size of every free chunk, by start."""
        return sorted((start, 1 << order) for order, starts in enumerate(self._free) for start in starts)

    @property
    def largest_free(self) -> int:
        """Slots of the largest free chunk; 0 if nothing is free."""
        return next((1 << order for order in reversed(range(len(self._free))) if self._free[order]), 0)

    def allocate(self, slots: int) -> Chunk | None:
        """Take a chunk of at least so many slots; None if no free one is large enough."""
        wanted = _order(slots)
        order = next((k for k in range(wanted, len(self._free)) if self._free[k]), None)
        if order is None:
            return None
        start, _ = self._free[order].popitem()
        while order > wanted:  # keep the lower half, leave the upper one
            order -= 1
            self._free[order][start + (1 << order)] = None
        chunk = Chunk(start, 1 << order, slots)
        self._held[start] = chunk
        self.free_slots -= chunk.size
        return chunk

    def free(self, chunk: Chunk) -> None:
        """Give a chunk back and join it with its buddies.

        Raises
        ------
        RunError
            If nobody holds it.
        """
        if self._held.get(chunk.start) != chunk:
            raise RunError(f"buddy allocator: the chunk of {chunk.size} slots at {chunk.start} is not held")
        del self._held[chunk.start]
        self.free_slots += chunk.size
        start, order = chunk.start, chunk.size.bit_length() - 1
        while (buddy := start ^ (1 << order)) in self._free[order]:
            del self._free[order][buddy]
            start, order = min(start, buddy), order + 1
        self._free[order][start] = None


def chunks_in(pool: int, slots: int) -> int:
    """Chunks of at least `slots` slots that an empty pool holds at once."""
    return pool >> _order(slots)


def _order(slots: int) -> int:
    """The smallest k with 2^k >= slots."""
    if isinstance(slots, bool) or not isinstance(slots, int) or slots < 1:
        raise InputError(f"slots: expected an integer >= 1 (got {slots!r})")
    return (slots - 1).bit_length()
