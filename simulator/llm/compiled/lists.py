"""Lists and tables of the compiled LLM engine; see `kernel`, which inlines them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....jit import inner
from .rules import BARE

__all__ = ["append", "enter", "leave", "note_run", "remove", "taken", "wider"]

_inline: Any = inner(**BARE)


@_inline
def enter(r: int, base: int, target: int, size: int, b: Any) -> None:
    """A sequence begins to decode."""
    count, due, after, ahead, bases = b
    bases[r] = base
    count[(base - 1) % size] += 1
    slot = (target - base) % len(due)
    first = due[slot]
    after[r], ahead[r], due[slot] = first, -1, r
    if first >= 0:
        ahead[first] = r


@_inline
def leave(r: int, target: int, size: int, b: Any) -> None:
    """A sequence decodes no more."""
    count, due, after, ahead, bases = b
    count[(bases[r] - 1) % size] -= 1
    if ahead[r] >= 0:
        after[ahead[r]] = after[r]
    else:
        due[(target - bases[r]) % len(due)] = after[r]
    if after[r] >= 0:
        ahead[after[r]] = ahead[r]


@_inline
def append(r: int, links: Any, ends: Any) -> None:
    """A request is the last of those that run."""
    links[0, r], links[1, r] = ends[1], -1
    if ends[1] >= 0:
        links[1, ends[1]] = r
    else:
        ends[0] = r
    ends[1] = r


@_inline
def remove(r: int, links: Any, ends: Any) -> None:
    """A request runs no more."""
    last, following = links[0, r], links[1, r]
    if last >= 0:
        links[1, last] = following
    else:
        ends[0] = following
    if following >= 0:
        links[0, following] = last
    else:
        ends[1] = last


@_inline
def note_run(r: int, first: Any, last: int, runs: Any, n: int) -> int:
    """A request's run of tokens ended with an iteration; how many runs there are."""
    if first[r] > last:
        return n
    runs[0, n], runs[1, n], runs[2, n] = r, first[r], last
    return n + 1


@_inline
def taken(n_back: int, head: int) -> tuple[int, int]:
    """The first of those that wait goes: a preempted one, if there is any, else the first to have arrived."""
    return (n_back - 1, head) if n_back else (n_back, head + 1)


def wider(table: Any, used: int, room: int) -> Any:
    """A table with room for `room` more columns, at least twice as wide where it must grow.

    Kernels cannot allocate: they return when a table is full, and are called again with a wider one. Doubling keeps the
    copies linear in the final width.
    """
    if used + room <= table.shape[1]:
        return table
    wide = np.empty((table.shape[0], 2 * table.shape[1] + room), dtype=table.dtype)
    wide[:, :used] = table[:, :used]
    return wide
