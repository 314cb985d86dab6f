"""Blocks of groups of sequences: `memory.blocks.BlockManager` in numbers of blocks, column by column.

All sequences of a group are equally long, so their block tables are the columns of one table. What the first columns
hold is shared by all; only of beams must be known who shares which block with whom.
"""

from __future__ import annotations

from typing import Any

from .....jit import inner
from ..rules import BARE
from .tables import GroupRules, GroupTables

__all__ = ["append", "fork", "free", "insert", "users"]

_inline: Any = inner(**BARE)


@_inline
def append(x: GroupRules, s: GroupTables, r: int) -> None:
    """Room for the newest token of each sequence: a block more, or a copy of what is shared."""
    g, q = s.engine[0], s.group[r]
    if q.columns * x.size < q.length:
        q.columns += 1
        more = q.there
    else:
        more = q.there - q.last
        if more and q.solid == q.columns:
            q.solid -= 1
    if more:
        q.held += more
        g.free -= more
        q.last = q.there
        if q.beam:
            at = q.table + (q.columns - 1) * q.wide
            for i in range(q.wide):
                s.table[at + i] = i


@_inline
def _different(mask: int) -> int:
    """How many bits are set."""
    n = 0
    while mask:
        mask &= mask - 1
        n += 1
    return n


@_inline
def fork(s: GroupTables, r: int, parents: int) -> None:
    """Each beam goes on from its parent (`parents`: where these stand): blocks of the dead are free."""
    q = s.group[r]
    k = q.wide
    stays = True
    for i in range(k):
        stays = stays and s.parent[parents + i] == i
    if stays:
        return
    lost = 0
    for column in range(q.solid, q.columns):
        at = q.table + column * k
        was = now = 0
        for i in range(k):
            s.row[i] = s.table[at + s.parent[parents + i]]
        for i in range(k):
            was |= 1 << s.table[at + i]
            s.table[at + i] = s.row[i]
            now |= 1 << s.row[i]
        q.last = _different(now)
        lost += _different(was) - q.last
        if q.last == 1 and column == q.solid:
            q.solid += 1
    q.held -= lost
    s.engine[0].free += lost


@_inline
def users(s: GroupTables, r: int, more: int) -> None:
    """Requests begin or cease to use a prefix."""
    if s.group[r].prefix >= 0:
        s.users[s.group[r].prefix] += more


@_inline
def free(s: GroupTables, r: int) -> None:
    """All blocks of a request."""
    q = s.group[r]
    s.engine[0].free += q.held
    q.held = 0
    users(s, r, -1)


@_inline
def insert(queue: Any, n: int, r: int) -> None:
    """A request takes its place among `n` in order of arrival."""
    while n and queue[n - 1] > r:
        queue[n] = queue[n - 1]
        n -= 1
    queue[n] = r
