"""The buddy allocator compiled: `buddy.BuddyAllocator` in arrays, with a list of the free chunks of each size."""

from __future__ import annotations

from typing import Any

from .....jit import inner
from ..rules import BARE
from .tables import Tables

__all__ = ["allocate", "free_chunk", "fresh_chunks", "order_of"]

_inline: Any = inner(**BARE)


@_inline
def order_of(slots: int) -> int:
    """The smallest k with 2^k >= slots."""
    order = 0
    while (1 << order) < slots:
        order += 1
    return order


@_inline
def _put(chunk: Any, top: Any, start: int, order: int) -> None:
    """Put a free chunk on top of the stack of its size: what was freed last is taken first, as in the reference."""
    below = top[order]
    chunk[start].order, chunk[start].below, chunk[start].above = order, below, -1
    if below >= 0:
        chunk[below].above = start
    top[order] = start


@_inline
def _drop(chunk: Any, top: Any, start: int) -> None:
    """Take a free chunk out of the stack of its size, wherever it stands."""
    c = chunk[start]
    if c.above >= 0:
        chunk[c.above].below = c.below
    else:
        top[c.order] = c.below
    if c.below >= 0:
        chunk[c.below].above = c.above
    c.order = -1


def fresh_chunks(s: Tables) -> None:
    """All slots of all engines are free: chunks by the binary digits of their number, largest first."""
    slots, start = s.chunk.shape[1], 0
    s.chunk["order"], s.top[:] = -1, -1
    for order in range(s.top.shape[1] - 1, -1, -1):
        if slots >> order & 1:
            s.chunk[:, start] = (-1, -1, order)
            s.top[:, order] = start
            start += 1 << order


@_inline
def allocate(s: Tables, e: int, wanted: int) -> int:
    """The first slot of a chunk of 2^wanted slots; -1 if no free one is large enough."""
    chunk, top = s.chunk[e], s.top[e]
    order = wanted
    while order < len(top) and top[order] < 0:
        order += 1
    if order >= len(top):
        return -1
    start = top[order]
    _drop(chunk, top, start)
    while order > wanted:  # keep the lower half, leave the upper one
        order -= 1
        _put(chunk, top, start + (1 << order), order)
    return start


@_inline
def free_chunk(s: Tables, e: int, start: int, order: int) -> None:
    """Give a chunk back and join it with its buddies."""
    chunk, top = s.chunk[e], s.top[e]
    while True:
        buddy = start ^ (1 << order)
        if buddy >= len(chunk) or chunk[buddy].order != order:
            break
        _drop(chunk, top, buddy)
        start, order = min(start, buddy), order + 1
    _put(chunk, top, start, order)
