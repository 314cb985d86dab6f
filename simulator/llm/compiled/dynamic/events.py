"""Events of a fleet that changes: those of `fleet.events`, more kinds of them, void where their engine has changed."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....jit import inner
from ...fleet import clock
from ..fleet.events import push
from ..fleet.tables import Tables
from ..rules import BARE

__all__ = [
    "AGAIN", "ARRIVES", "BACK", "DECIDES", "DIES", "ENDS", "FAILS", "FRESH", "MOVED", "MOVES", "NEXT", "REPAIRED",
    "SCALE", "SCALES", "STARTED", "STEP", "STRIKES", "code_of", "told", "schedule", "stamp_of", "what_of",
]  # fmt: skip

# numpy's numbers, here as in `tables`: numba compiles a function once more for each literal that it is given.
ENDS, FAILS, MOVES = np.int64(clock.ENDS), np.int64(clock.FAILS), np.int64(clock.MOVES)
ARRIVES, SCALES, DECIDES = np.int64(clock.ARRIVES), np.int64(clock.SCALES), np.int64(clock.DECIDES)
"""Kinds of events, as in the reference: at one instant they happen in this order."""

STEP, NEXT, FRESH, AGAIN, DIES, STRIKES, REPAIRED, BACK, STARTED, SCALE, MOVED = map(np.int64, range(11))
"""What happens: an engine goes on; the next request that waits for nobody arrives, or a certain one, or one is sent
again; an engine fails at random, or as was foretold; it is repaired, it is back, or it has started; a rule is asked; a
request's transfer has ended."""

_CODE, _WHAT = 4, 30  # bits of the code and, above it, of the engine or request; the rest is the stamp

_inline: Any = inner(**BARE)


def told(code: Any, what: int, stamp: int) -> int:
    """What happens to whom as one number. An engine's stamp is how often it was started anew, or changed its state, a
    transfer's how often its request was tried before."""
    return (((stamp << _WHAT) | what) << _CODE) | code


_told: Any = _inline(told)


@_inline
def schedule(s: Tables, time: float, kind: int, code: int, what: int, stamp: int) -> None:
    """Something is to happen."""
    push(s, time, kind, _told(code, what, stamp))


@_inline
def code_of(event: int) -> int:
    """What happens."""
    return event & ((1 << _CODE) - 1)


@_inline
def what_of(event: int) -> int:
    """To which engine, request or rule."""
    return (event >> _CODE) & ((1 << _WHAT) - 1)


@_inline
def stamp_of(event: int) -> int:
    """The stamp that an engine must still have."""
    return event >> (_CODE + _WHAT)
