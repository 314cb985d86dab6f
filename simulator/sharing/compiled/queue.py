"""What comes next, compiled: a heap of the jobs that run, by their ends, and the leases in a row, by theirs."""

from __future__ import annotations

import numpy as np

from ....jit import inner

__all__ = ["lease", "next_end", "next_expiry", "schedule", "unlease"]


@inner
def next_end(s):  # type: ignore[no-untyped-def]
    """The entry that ends first, or −1."""
    return s.queue[0] if s.number[0] else -1


@inner
def schedule(finish, queue, queued, number, e, at_s):  # type: ignore[no-untyped-def]
    """An entry ends at an instant, whatever was said before; never, if infinite."""
    place, size = queued[e], number[0]
    finish[e] = at_s
    if at_s == np.inf:
        if place < 0:
            return
        queued[e] = -1
        number[0] = size = size - 1
        if place == size:
            return
        e = queue[size]
    elif place < 0:
        place = size
        number[0] = size = size + 1
    end = finish[e]
    while place > 0 and finish[queue[(place - 1) // 2]] > end:
        queue[place] = queue[(place - 1) // 2]
        queued[queue[place]] = place
        place = (place - 1) // 2
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and finish[queue[child + 1]] < finish[queue[child]]:
            child += 1
        if finish[queue[child]] >= end:
            break
        queue[place] = queue[child]
        queued[queue[place]] = place
        place = child
    queue[place] = e
    queued[e] = place


@inner
def next_expiry(after):  # type: ignore[no-untyped-def]
    """The GPU whose lease is over first, or −1: who is granted later has no earlier end, so the oldest stands first."""
    g = after[after.shape[0] - 1]
    return g if g < after.shape[0] - 1 else -1


@inner
def unlease(expiry, after, before, g):  # type: ignore[no-untyped-def]
    """Take a GPU out of the row."""
    if expiry[g] < np.inf:
        ahead, behind = before[g], after[g]
        after[ahead] = behind
        before[behind] = ahead
        expiry[g] = np.inf


@inner
def lease(expiry, after, before, g, until_s):  # type: ignore[no-untyped-def]
    """A GPU's lease is over at an instant, no earlier than all others'; an infinite one never."""
    unlease(expiry, after, before, g)
    if until_s < np.inf:
        end = expiry.shape[0]
        last = before[end]
        after[last] = before[end] = g
        before[g], after[g] = last, end
        expiry[g] = until_s
