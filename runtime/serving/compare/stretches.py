"""Stretches of a run that tell what times are, and those between them that are judged, by turns.

A machine's speed changes by some percent from one quarter of a minute to the next, and no rounds before or after a run
know how fast it was meanwhile. Stretches of half a second in turns do: what is left is how far neighbours are apart.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ....traces.trace import Trace

__all__ = ["STRETCH_S", "judged"]

STRETCH_S = 0.5
"""Seconds of a stretch: as `compare llm` has them, where half a second told better than two (docs/llm-measure.md)."""


def judged(trace: Trace, stretch_s: float = STRETCH_S) -> npt.NDArray[np.bool_]:
    """Requests that a run is judged by, shape (n,): those that arrive in the second stretch, the fourth, and so on.

    Raises
    ------
    InputError
        If there is none, or no other.
    """
    found = (trace.arrival / stretch_s).astype(np.int64) % 2 == 1
    if not found.any() or found.all():
        raise InputError(
            f"compare: expected requests in stretches of {stretch_s:g} s that tell, and in those between that are "
            f"judged (got {len(trace)} in {trace.duration:.3g} s); take a longer trace, or do not calibrate"
        )
    return found
