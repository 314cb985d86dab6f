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
def _place(bucket: Any, content: int) -> int:
    """The bucket of a content."""
    # Multiplicative hashing, because contents are nearly consecutive numbers; the odd constant is that of xorshift64*
    # (Vigna, 2016). The low bits of a product depend on few bits of its factors, and are shifted away.
    return ((content * 0x2545F4914F6CDD1D) >> 20) & (bucket.shape[0] - 1)


@_inline
def _content(nodes: Any, per: int, q: Any, k: int) -> int:
    """The content of a request's k-th full block."""
    if k < q.shared:
        return nodes[q.nodes + k // per] * per + k % per
    return q.own + k


@_inline
def _remove(block: Any, b: int) -> None:
    """A block leaves the free queue."""
    earlier, later = block[b].earlier, block[b].later
    block[earlier].later, block[later].earlier = later, earlier


@_inline
def _known(block: Any, bucket: Any, content: int) -> int:
    """The block that holds a content; 0 if none does."""
    b = bucket[_place(bucket, content), 0]
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
        b = _known(block, s.bucket[e], _content(s.nodes, s.per, q, k))
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
def _in_groups(x: FleetRules, pool: Any, table: Any, q: Any, most: int) -> tuple[int, int]:
    """`found_prefix` over groups of layers: all of a prefix where they hold all tokens, its last window in others.

    `pool`: blocks and buckets of an engine, and contents. Not `Tables`, as a call hands over each number of it.
    """
    block, bucket, nodes, per = pool
    groups, full = x.groups, x.groups - x.near
    known = most
    for k in range(most):
        for own in range(full):
            b = _known(block, bucket, _content(nodes, per, q, k) * groups + own)
            table[q.table + k * groups + own] = b
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
                b = _known(block, bucket, _content(nodes, per, q, k) * groups + own)
                table[q.table + k * groups + own] = b
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
                table[q.table + k * groups + own] = 0
            elif block[table[q.table + k * groups + own]].shares == 0:
                free += 1
    return found, free


@_inline
def found_prefix(x: FleetRules, s: Tables, e: int, r: int, most: int) -> tuple[int, int]:
    """Blocks of the longest cached prefix of at most `most` blocks, and how many of all groups' nobody uses."""
    if x.groups > 1 or x.near:
        return _in_groups(x, (s.block[e], s.bucket[e], s.nodes, s.per), s.table, s.request[r], most)
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
        b = block[0].later
        for own in range(x.groups):  # one group's after the other's
            at = q.table + q.blocks * x.groups + own
            for _ in range(need):
                if block[b].content >= 0:
                    place = _place(bucket, block[b].content)
                    previous, following = block[b].previous, block[b].following
                    if previous > 0:
                        block[previous].following = following
                    else:
                        bucket[place, 0] = following
                    if following > 0:
                        block[following].previous = previous
                    else:
                        bucket[place, 1] = previous
                    block[b].content = -1
                block[b].shares = 1
                s.table[at] = b
                at += x.groups
                b = block[b].later
        block[0].later, block[b].earlier = b, 0
    q.blocks += need


@_call
def _give_back(block: Any, table: Any, begin: int, step: int, end: int) -> int:
    """Every `step`-th block of a table from `begin` to before `end` is given back, the last to be evicted first:
    those of unknown content go to the head of the free queue, others to its tail. How many nobody uses now."""
    first, ahead, behind, last, free = block[0].later, 0, 0, 0, 0
    for at in range(end - step, begin - 1, -step):
        b = np.int64(table[at])
        table[at] = 0
        block[b].shares -= 1
        if block[b].shares == 0:
            free += 1
            if block[b].content < 0:
                block[b].earlier, block[ahead].later = ahead, b
                ahead = b
            else:
                if last:
                    block[last].later = b
                else:
                    behind = b
                block[b].earlier = last
                last = b
    if ahead:
        block[ahead].later, block[first].earlier = first, ahead
    if behind:
        tail = block[0].earlier
        block[tail].later, block[behind].earlier = behind, tail
        block[last].later, block[0].earlier = 0, last
    return free


@_inline
def _group_gives_back(x: FleetRules, s: Tables, e: int, r: int, own: int, low: int, high: int) -> None:
    """A request gives one group's blocks from `low` to before `high` back."""
    table = s.request[r].table + own
    free = _give_back(s.block[e], s.table, table + low * x.groups, x.groups, table + high * x.groups)
    s.engine[e].free += free


@_inline
def let_go(x: FleetRules, s: Tables, e: int, r: int, computed: int) -> None:
    """Groups with a window give back what lies behind it, when so many tokens of a request are computed."""
    g, q = s.engine[e], s.request[r]
    behind = _behind(x, computed)
    if behind > q.gone:
        if x.caching:
            for own in range(x.groups - x.near, x.groups):
                _group_gives_back(x, s, e, r, own, q.gone, behind)
        else:
            g.free += x.near * (behind - q.gone)
        g.gone += behind - q.gone
        q.gone = behind


@_inline
def publish(x: FleetRules, s: Tables, e: int, r: int, tokens: int) -> None:
    """Let other requests find the blocks that a request's first `tokens` tokens fill.

    Of groups with a window those before a prompt's last token, and before the place where others were seen to part from
    it (vLLM's retention interval 0).
    """
    if not x.caching:
        return
    q, full = s.request[r], tokens // x.size
    if full <= q.published:
        return
    block, bucket, tail, one, other = s.block[e], s.bucket[e], 0, 0, 0
    if x.near:
        tail, one, other = -(-(x.window - 1) // x.size), (q.prompt - 1) // x.size, q.junction // x.size
    for k in range(q.published, full):
        found, groups = _content(s.nodes, s.per, q, k) * x.groups, x.groups
        if x.near and not (one - tail <= k < one or other - tail <= k < other):
            groups -= x.near
        for own in range(groups):
            b, content = s.table[q.table + k * x.groups + own], found + own
            if b > 0:
                place = _place(bucket, content)
                last = bucket[place, 1]
                block[b].content, block[b].previous, block[b].following = content, last, 0
                if last > 0:
                    block[last].following = b
                else:
                    bucket[place, 0] = b
                bucket[place, 1] = b
    q.published = full


@_inline
def release(x: FleetRules, s: Tables, e: int, r: int) -> None:
    """A request gives its blocks back, the end of its sequence to be evicted first, one group's after the other's."""
    g, q = s.engine[e], s.request[r]
    if x.caching:
        for own in range(x.groups):
            _group_gives_back(x, s, e, r, own, q.gone if own >= x.groups - x.near else 0, q.blocks)
    else:
        g.free += x.groups * q.blocks - x.near * q.gone
    g.gone -= q.gone
    q.blocks = q.published = q.gone = 0
