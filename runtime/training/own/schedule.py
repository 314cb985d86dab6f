"""`Schedule`: the factor of the learning rate in each iteration, by numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from ....errors import InputError
from ....reprs import Shown

__all__ = ["DECAYS", "Schedule"]

DECAYS = ("constant", "linear", "cosine")


@dataclass(frozen=True, slots=True, repr=False)
class Schedule(Shown):
    """The factor of every learning rate in iteration i, counted from 0.

    During the warm-up it is (i + 1) / `warmup`. Then it goes from 1 to `least`, which it has from iteration `until` on,
    on a line or on half a cosine: the usual shapes (Loshchilov & Hutter, SGDR, Eq. 5 without restarts).

    Parameters
    ----------
    decay : {"constant", "linear", "cosine"}
        How it goes on after the warm-up.
    warmup : int
        Iterations of the warm-up.
    until : int
        Iteration from which the factor is `least`; counted from the start, warm-up included.
    least : float
        The last factor.
    factors : tuple of float
        The factors themselves, one for each iteration, instead of all others; the last one goes on.

    Raises
    ------
    InputError
        On an unknown decay, or numbers out of their range.
    """

    decay: Literal["constant", "linear", "cosine"] = "constant"
    warmup: int = 0
    until: int = 0
    least: float = 0.0
    factors: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "factors", tuple(self.factors))
        if self.decay not in DECAYS:
            raise InputError(f"schedule: expected one of {', '.join(DECAYS)} (got {self.decay!r})")
        if self.warmup < 0:
            raise InputError(f"schedule: warmup: expected a number of iterations (got {self.warmup!r})")
        if self.decay != "constant" and self.until <= self.warmup:
            raise InputError(
                f"schedule: until: expected the iteration at which the {self.decay} decay ends, after the warm-up of "
                f"{self.warmup} (got {self.until!r})"
            )
        if not all(math.isfinite(x) and x >= 0 for x in (self.least, *self.factors)):
            raise InputError("schedule: factors: expected finite numbers >= 0")
        if self.factors and (self.decay != "constant" or self.warmup):
            raise InputError("schedule: factors: say every iteration's; leave decay and warmup out")

    def at(self, iteration: int) -> float:
        """The factor of an iteration."""
        if self.factors:
            return self.factors[min(iteration, len(self.factors) - 1)]
        if iteration < self.warmup:
            return (iteration + 1) / self.warmup
        if self.decay == "constant":
            return 1.0
        gone = min(1.0, (iteration - self.warmup) / (self.until - self.warmup))
        left = 1.0 - gone if self.decay == "linear" else (1.0 + math.cos(math.pi * gone)) / 2.0
        return self.least + (1.0 - self.least) * left
