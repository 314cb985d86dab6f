"""The KV memory of the compiled fleet: `prefix_blocks.HashedPool` in arrays.

Every engine has a free queue (a ring of blocks through block 0) and a hash table whose chains go through the blocks
themselves, in the order in which their contents became known: of two blocks with one content the older is found.
Without prefix caching only numbers of blocks are kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .....jit import inner
from ..rules import BARE
from .tables import FleetRules, Tables

__all__ = ["cached_prefix", "fresh_pools", "let_go", "publish", "release", "share", "take"]

_inline: Any = inner(**BARE)


def fresh_pools(s: Tables) -> None:
    """All blocks of all engines are free, in order of their numbers."""
    count = s.block.shape[1]
    s.block["content"], s.block["shares"] = -1, 0
    s.block["earlier"], s.block["later"] = np.arange(-1, count - 1) % count, np.arange(1, count + 1) % count
    s.block["previous"] = s.block["following"] = 0
    s.bucket[:] = 0


@_inline
def _place(s: Tables, content: int) -> int:
    """The bucket of a content."""
    # Multiplicative hashing, because contents are nearly consecutive numbers; the odd constant is that of xorshift64*
    # (Vigna, 2016). The low bits of a product depend on few bits of its factors, and are shifted away.
    return ((content * 0x2545F4914F6CDD1D) >> 20) & (s.bucket.shape[2] - 1)


@_inline
def _content(s: Tables, r: int, k: int) -> int:
    """The content of a request's k-th full block."""
    q = s.request[r]
    if k < q.shared:
        return s.nodes[q.nodes + k // s.per] * s.per + k % s.per
    return q.own + k


@_inline
def _insert(block: Any, b: int, later: int) -> None:
    """A block enters the free queue."""
    earlier = block[later].earlier
    block[b].earlier, block[b].later = earlier, later
    block[earlier].later = block[later].earlier = b


@_inline
def _remove(block: Any, b: int) -> None:
    """A block leaves the free queue."""
    earlier, later = block[b].earlier, block[b].later
    block[earlier].later, block[later].earlier = later, earlier


@_inline
def cached_prefix(s: Tables, e: int, r: int, most: int) -> tuple[int, int]:
    """Blocks of the longest cached prefix of at most `most` blocks, and how many of them nobody uses; the request's
    table then begins with them."""
    block, q = s.block[e], s.request[r]
    free = 0
    for k in range(most):
        content = _content(s, r, k)
        b = s.bucket[e, 0, _place(s, content)]
        while b > 0 and block[b].content != content:
            b = block[b].following
        if b <= 0:
            return k, free
        s.table[q.table + k] = b
        if block[b].shares == 0:
            free += 1
    return most, free


@_inline
def share(s: Tables, e: int, r: int, found: int) -> None:
    """A request uses the blocks that were found for it."""
    block, q = s.block[e], s.request[r]
    for k in range(found):
        b = s.table[q.table + k]
        if block[b].shares == 0:
            _remove(block, b)
            s.engine[e].free -= 1
        block[b].shares += 1
    q.blocks = q.published = found


@_inline
def take(x: FleetRules, s: Tables, e: int, r: int, need: int) -> None:
    """Give a request `need` more blocks in each group of layers. What they held cannot be found any more."""
    g, q = s.engine[e], s.request[r]
    g.free -= x.groups * need
    if x.caching:
        block, bucket = s.block[e], s.bucket[e]
        for k in range(q.blocks, q.blocks + need):
            b = block[0].later
            _remove(block, b)
            if block[b].content >= 0:
                place = _place(s, block[b].content)
                previous, following = block[b].previous, block[b].following
                if previous > 0:
                    block[previous].following = following
                else:
                    bucket[0, place] = following
                if following > 0:
                    block[following].previous = previous
                else:
                    bucket[1, place] = previous
                block[b].content = -1
            block[b].shares = 1
            s.table[q.table + k] = b
    q.blocks += need


@_inline
def let_go(x: FleetRules, s: Tables, e: int, r: int, computed: int) -> None:
    """Groups with a window give back what lies behind it, when so many tokens of a request are computed."""
    q = s.request[r]
    behind = (computed - x.window + 1) // x.size
    if behind > q.gone:
        s.engine[e].free += x.near * (behind - q.gone)
        q.gone = behind


@_inline
def publish(x: FleetRules, s: Tables, e: int, r: int, tokens: int) -> None:
    """Let other requests find the blocks that a request's first `tokens` tokens fill."""
    if not x.caching:
        return
    block, bucket, q = s.block[e], s.bucket[e], s.request[r]
    full = tokens // x.size
    for k in range(q.published, full):
        b, content = s.table[q.table + k], _content(s, r, k)
        place = _place(s, content)
        last = bucket[1, place]
        block[b].content, block[b].previous, block[b].following = content, last, 0
        if last > 0:
            block[last].following = b
        else:
            bucket[0, place] = b
        bucket[1, place] = b
    q.published = max(q.published, full)


@_inline
def release(x: FleetRules, s: Tables, e: int, r: int) -> None:
    """A request gives its blocks back, the end of its sequence to be evicted first: blocks of unknown content go to the
    head of the free queue, others to its tail."""
    g, q = s.engine[e], s.request[r]
    if x.caching:
        block = s.block[e]
        head = block[0].later
        for k in range(q.blocks - 1, -1, -1):
            b = s.table[q.table + k]
            block[b].shares -= 1
            if block[b].shares == 0:
                # Before what was the head at first, so that they keep their order; of an empty queue, before block 0.
                _insert(block, b, head if block[b].content < 0 else 0)
                g.free += 1
    else:
        g.free += x.groups * q.blocks - x.near * q.gone
        q.gone = 0
    q.blocks = q.published = 0
