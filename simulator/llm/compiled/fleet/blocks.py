"""The KV memory of the compiled fleet: `prefix_blocks.HashedPool` in arrays.

Every engine has a free queue (a ring of blocks through block 0) and a hash table whose chains go through the blocks
themselves, in the order in which their contents became known: of two blocks with one content the older is found.
Without prefix caching only numbers of blocks are kept.

Layers may form groups with blocks of their own (`group_tables.GroupTables`), those that hold all tokens first. A
request's table has a block of each group for its first block of tokens, then for its second, …; 0 stands where a group
with a window needs none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .....jit import inner
from ..rules import BARE, CALL
from .tables import FleetRules, Tables

__all__ = [
    "cached_prefix", "found_prefix", "fresh_pools", "let_go", "publish", "release", "share", "share_found",
    "take",
]  # fmt: skip

_inline: Any = inner(**BARE)
_call: Any = inner(**CALL)


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
def _known(s: Tables, e: int, content: int) -> int:
    """The block that holds a content; 0 if none does."""
    block = s.block[e]
    b = s.bucket[e, 0, _place(s, content)]
    while b > 0 and block[b].content != content:
        b = block[b].following
    return b


@_inline
def cached_prefix(s: Tables, e: int, r: int, most: int) -> tuple[int, int]:
    """Blocks of the longest cached prefix of at most `most` blocks, and how many of them nobody uses; the request's
    table then begins with them."""
    block, q = s.block[e], s.request[r]
    free = 0
    for k in range(most):
        b = _known(s, e, _content(s, r, k))
        if b <= 0:
            return k, free
        s.table[q.table + k] = b
        if block[b].shares == 0:
            free += 1
    return most, free


@_inline
def _behind(x: FleetRules, computed: int) -> int:
    """Blocks of a group with a window that no later token sees, when so many are computed."""
    return max(0, computed - x.window + 1) // x.size if x.near else 0


@_call
def _in_groups(x: FleetRules, s: Tables, e: int, r: int, most: int) -> tuple[int, int]:
    """`found_prefix` over groups of layers: all of a prefix where they hold all tokens, its last window in others."""
    q, groups, full = s.request[r], x.groups, x.groups - x.near
    known = most
    for k in range(most):
        for own in range(full):
            b = _known(s, e, _content(s, r, k) * groups + own)
            s.table[q.table + k * groups + own] = b
            if b <= 0:
                known = k
                break
        if known < most:
            break
    found, q.junction = known, 0
    if x.near:
        tail, run, found, k = -(-(x.window - 1) // x.size), 0, -1, known
        while k > 0 and found < 0:
            k -= 1
            run += 1
            for own in range(full, groups):
                b = _known(s, e, _content(s, r, k) * groups + own)
                s.table[q.table + k * groups + own] = b
                if b <= 0:
                    run = 0
                    break
            if run and run >= tail:
                found = k + run
        if found < 0:
            found = run  # a beginning that is shorter than the window
        if full and found < known:
            q.junction = known * x.size
    free, skipped = 0, min(_behind(x, found * x.size), found)
    for k in range(found):
        for own in range(groups):
            if own >= full and k < skipped:
                s.table[q.table + k * groups + own] = 0
            elif s.block[e, s.table[q.table + k * groups + own]].shares == 0:
                free += 1
    return found, free


@_inline
def found_prefix(x: FleetRules, s: Tables, e: int, r: int, most: int) -> tuple[int, int]:
    """Blocks of the longest cached prefix of at most `most` blocks, and how many of all groups' nobody uses."""
    if x.groups > 1 or x.near:
        return _in_groups(x, s, e, r, most)
    return cached_prefix(s, e, r, most)


@_inline
def share(s: Tables, e: int, r: int, found: int, groups: int = 1) -> None:
    """A request uses the blocks that were found for it."""
    block, q = s.block[e], s.request[r]
    for i in range(found * groups):
        b = s.table[q.table + i]
        if b > 0:
            if block[b].shares == 0:
                _remove(block, b)
                s.engine[e].free -= 1
            block[b].shares += 1
    q.blocks = q.published = found


@_inline
def share_found(x: FleetRules, s: Tables, e: int, r: int, found: int) -> None:
    """A request uses the blocks that `found_prefix` found for it in all groups of layers."""
    q = s.request[r]
    share(s, e, r, found, x.groups)
    q.gone = min(_behind(x, found * x.size), found)
    s.engine[e].gone += q.gone


@_inline
def take(x: FleetRules, s: Tables, e: int, r: int, need: int) -> None:
    """Give a request `need` more blocks in each group of layers. What they held cannot be found any more."""
    g, q = s.engine[e], s.request[r]
    g.free -= x.groups * need
    if x.caching:
        block, bucket = s.block[e], s.bucket[e]
        for i in range(x.groups * need):  # one group's after the other's
            own = i // need
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
            s.table[q.table + (q.blocks + i - own * need) * x.groups + own] = b
    q.blocks += need


@_call
def _give_back(x: FleetRules, s: Tables, e: int, r: int, own: int, low: int, high: int) -> None:
    """A request gives one group's blocks from `low` to before `high` back, the last of them to be evicted first: blocks
    of unknown content go to the head of the free queue, others to its tail."""
    block, q = s.block[e], s.request[r]
    head = block[0].later
    for k in range(high - 1, low - 1, -1):
        at = q.table + k * x.groups + own
        b = s.table[at]
        s.table[at] = 0
        block[b].shares -= 1
        if block[b].shares == 0:
            # Before what was the head at first, so that they keep their order; of an empty queue, before the others.
            _insert(block, b, head if block[b].content < 0 else 0)
            if head == 0 and block[b].content >= 0:
                head = b
            s.engine[e].free += 1


@_inline
def let_go(x: FleetRules, s: Tables, e: int, r: int, computed: int) -> None:
    """Groups with a window give back what lies behind it, when so many tokens of a request are computed."""
    g, q = s.engine[e], s.request[r]
    behind = _behind(x, computed)
    if behind > q.gone:
        if x.caching:
            for own in range(x.groups - x.near, x.groups):
                _give_back(x, s, e, r, own, q.gone, behind)
        else:
            g.free += x.near * (behind - q.gone)
        g.gone += behind - q.gone
        q.gone = behind


@_inline
def _kept(x: FleetRules, q: Any, k: int) -> bool:
    """Whether a group with a window lets its k-th block be found: before a prompt's last token, and before the place
    where others were seen to part from it (vLLM's retention interval 0)."""
    tail, one, other = -(-(x.window - 1) // x.size), (q.prompt - 1) // x.size, q.junction // x.size
    return (one - tail <= k < one) or (other - tail <= k < other)


@_inline
def publish(x: FleetRules, s: Tables, e: int, r: int, tokens: int) -> None:
    """Let other requests find the blocks that a request's first `tokens` tokens fill."""
    if not x.caching:
        return
    block, bucket, q = s.block[e], s.bucket[e], s.request[r]
    full = tokens // x.size
    for own in range(x.groups):
        for k in range(q.published, full):
            b, content = s.table[q.table + k * x.groups + own], _content(s, r, k) * x.groups + own
            if own >= x.groups - x.near and (b == 0 or not _kept(x, q, k)):
                continue
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
    """A request gives its blocks back, the end of its sequence to be evicted first, one group's after the other's."""
    g, q = s.engine[e], s.request[r]
    if x.caching:
        for own in range(x.groups):
            _give_back(x, s, e, r, own, q.gone if own >= x.groups - x.near else 0, q.blocks)
    else:
        g.free += x.groups * q.blocks - x.near * q.gone
    g.gone -= q.gone
    q.blocks = q.published = q.gone = 0
