"""The waiting queues: one pairing heap for each engine of the compiled fleet, linked through the requests' own records.

A heap and not a list, because priorities insert anywhere and asynchronous scheduling removes from anywhere. First come,
first served is a heap by order of arrival, where a preempted request takes an order before all others.
"""

from __future__ import annotations

from typing import Any

from .....jit import inner
from ..rules import CALL

__all__ = ["dequeue", "enqueue"]

_call: Any = inner(**CALL)


@_call
def _meld(request: Any, a: int, b: int) -> int:
    """One heap of two; -1 is none."""
    if a < 0 or b < 0:
        return max(a, b)
    p, q = request[a], request[b]
    if q.priority < p.priority or (q.priority == p.priority and q.order < p.order):
        a, b = b, a
        p, q = q, p
    q.parent, q.sibling = a, p.child
    if p.child >= 0:
        request[p.child].parent = b
    p.child, p.sibling, p.parent = b, -1, -1
    return a


@_call
def _joined(request: Any, first: int) -> int:
    """Join siblings into one heap: in pairs, then pair by pair from the last to the first.

    The second pass gives the pairing heap its O(log n) amortised removal (Fredman et al., 1986).
    """
    pairs = -1
    while first >= 0:
        second = request[first].sibling
        following = request[second].sibling if second >= 0 else -1
        request[first].sibling = -1
        if second >= 0:
            request[second].sibling = -1
        both = _meld(request, first, second)
        request[both].sibling = pairs
        pairs, first = both, following
    root = -1
    while pairs >= 0:
        following = request[pairs].sibling
        request[pairs].sibling = -1
        root = _meld(request, root, pairs)
        pairs = following
    if root >= 0:
        request[root].parent = -1
    return root


@_call
def enqueue(request: Any, engine: Any, e: int, r: int) -> None:
    """A request waits."""
    q = request[r]
    q.child = q.sibling = q.parent = -1
    engine[e].root = _meld(request, engine[e].root, r)
    engine[e].waiting += 1


@_call
def dequeue(request: Any, engine: Any, e: int, r: int) -> None:
    """A request waits no more, be it the first or another."""
    g = engine[e]
    q = request[r]
    below = _joined(request, q.child)
    if g.root == r:
        g.root = below
    else:
        p = request[q.parent]
        if p.child == r:
            p.child = q.sibling
        else:
            p.sibling = q.sibling
        if q.sibling >= 0:
            request[q.sibling].parent = q.parent
        g.root = _meld(request, g.root, below)
    g.waiting -= 1
