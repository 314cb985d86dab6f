"""How costs are measured."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

from ....errors import InputError

__all__ = ["MeasureOptions"]


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """How costs are measured.

    Parameters
    ----------
    least_rounds, most_rounds : int
        Rounds until the first look at the spread, and in the end. 5 and 50: the authors measure until the spread is
        small or 50 rounds are done.
    spread : float
        A cost is settled when its median is known this well (half of its 94 % interval, as a part of it).
    limit_s : float
        Wall-clock seconds that compiling and checking one unit, or one pass through the network, may take; who takes
        longer hangs.
    tolerance : float
        Largest difference from eager, as a part of the largest value.
    core : int or None
        Processor core to be pinned to; `None`: the last of those that this process may use.
    seed : int
        Of the random inputs.

    Raises
    ------
    InputError
        If a number is out of its range.
    """

    least_rounds: int = 5
    most_rounds: int = 50
    spread: float = 0.10
    limit_s: float = 120.0
    tolerance: float = 1e-4
    core: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.least_rounds <= self.most_rounds:
            raise InputError(f"measure: expected 1 <= least_rounds <= most_rounds (got {self})")
        for name in ("spread", "limit_s", "tolerance"):
            value = getattr(self, name)
            if not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
                raise InputError(f"measure: {name}: expected a positive number (got {value!r})")
        allowed = _cores()
        if self.core is not None and allowed and self.core not in allowed:
            raise InputError(f"measure: core: expected one of {allowed} (got {self.core!r})")

    def pinned(self) -> int | None:
        """The core, or `None` where the system cannot pin."""
        allowed = _cores()
        return (self.core if self.core is not None else allowed[-1]) if allowed else None


def _cores() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
