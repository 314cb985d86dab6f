"""Which beams survive, compiled: `genealogy.Genealogy`, draw for draw."""

from __future__ import annotations

from typing import Any

from .....jit import inner
from ...decoding.genealogy import CHUNK
from ..rules import CALL
from ..streams import below, seeded, uniform
from .memory import fork
from .tables import GroupRules, GroupTables

__all__ = ["survive"]

_call: Any = inner(**CALL)


@_call
def _draw(x: GroupRules, s: GroupTables, r: int, chunk: int) -> None:
    """Parents in the steps of a chunk."""
    q = s.group[r]
    k = q.wide
    seeded(s.stream, s.entropy, s.keys[q.key + chunk])
    for i in range(CHUNK * k):
        s.stays[i] = uniform(s.stream)
    for i in range(CHUNK * k):
        drawn = below(s.stream, k)
        s.parent[q.drawn + i] = i % k if s.stays[i] < x.survival else drawn


@_call
def survive(x: GroupRules, s: GroupTables, r: int) -> None:
    """The beams of a request go on from the beams that survived the step before."""
    q = s.group[r]
    step = q.length - q.start
    if step == 1 or step % CHUNK == 0:
        _draw(x, s, r, step // CHUNK)
    fork(s, r, q.drawn + step % CHUNK * q.wide)
