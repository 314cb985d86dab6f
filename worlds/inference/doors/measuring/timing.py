"""What placements take while a planner tries them: medians of few calls, beside a reference in the same moments."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

from .....errors import RunError
from .....runtime.collage.placed import Compiler, Placed, Unit
from .....runtime.collage.rounds import one_core

__all__ = ["median_ms", "ms_beside"]

CALLS = 5
"""Calls of a placement, and of the reference beside each, of which medians are taken."""
WARM = 2


def median_ms(placed: Placed, lap: Callable[[], float]) -> float:
    """The median of what `lap` says of a few calls, after some that warm up."""
    import torch

    with one_core(), torch.inference_mode():
        for _ in range(WARM):
            placed(*placed.captured.example)
        return statistics.median(lap() for _ in range(CALLS))


def ms_beside(compiler: Compiler, units: Sequence[Unit], reference: Placed) -> float:
    """Milliseconds of a placement, by its ratio to a reference in the same moments; inf if it cannot be compiled."""
    import torch

    try:
        placed = compiler.placed(units)
    except RunError:
        return float("inf")
    example, ratios = placed.captured.example, list[float]()
    base = median_ms(reference, lambda: reference.timed(*example).total_ms)
    with one_core(), torch.inference_mode():
        for _ in range(WARM):
            placed(*example)
        for _ in range(CALLS):
            laps = list[int]()
            for one in (reference, placed):
                begun = time.process_time_ns()
                one(*example)
                laps.append(time.process_time_ns() - begun)
            ratios.append(laps[1] / laps[0])
    return base * statistics.median(ratios)
