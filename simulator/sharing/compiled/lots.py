"""`lot`, compiled."""

from __future__ import annotations

import numpy as np

from ....jit import inner

__all__ = ["lot_kernel"]


@inner
def lot_kernel(seed, decision, what):  # type: ignore[no-untyped-def]
    """See `lots.lot`."""
    h = np.uint64(0)
    for x in (np.uint64(seed), np.uint64(decision), np.uint64(what)):
        h = h + x + np.uint64(0x9E3779B97F4A7C15)
        h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        h = h ^ (h >> np.uint64(31))
    return h
