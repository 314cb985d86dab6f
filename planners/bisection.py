"""`Bisection`: the extreme value of a quantity that still attains, found one try at a time.

It is a rule, not a loop: it holds no state and calls nothing. The caller tries the values. It passes what it knows so
far to `Bisection.next` and is told which value to try next. So one process can run several bisections at once, and they
can share the values that they have tried.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ..errors import InputError

__all__ = ["Bisection"]


@dataclass(frozen=True, slots=True)
class Bisection:
    """Search between an easy end and a hard end for the hardest value that attains.

    Parameters
    ----------
    low, high : float
        The range, both ends included; > 0.
    hard : {"low", "high"}
        Which end is the harder one to attain at: the low one for devices, the high one for a rate.
    tolerance : float
        Stop when the hardest value that attains and the easiest that does not differ by at most this share: their
        ratio is at most 1 + tolerance. Whole quantities may have a tolerance of 0, and are then found exactly.
    whole : bool
        Whether only integers make sense. Others are bisected on a logarithmic scale.
    name : str
        The quantity, for messages.
    step : int
        For whole quantities: between the two ends only multiples of this step are tried, for example because devices
        come in full nodes.

    Raises
    ------
    InputError
        If the range is empty or not positive, or the tolerance could never be reached.
    """

    low: float
    high: float
    hard: Literal["low", "high"]
    tolerance: float = 0.02
    whole: bool = False
    name: str = "bisection"
    step: int = 1

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and 0 < self.low <= self.high):
            raise InputError(f"{self.name}: expected a range 0 < low <= high (got {self.low} to {self.high})")
        if self.whole and not (self.low == int(self.low) and self.high == int(self.high)):
            raise InputError(f"{self.name}: low and high must be whole numbers (got {self.low} to {self.high})")
        if not (math.isfinite(self.tolerance) and (self.tolerance > 0 or (self.whole and self.tolerance == 0))):
            raise InputError(f"{self.name}: tolerance must be finite and > 0 (got {self.tolerance})")

    @property
    def easy_end(self) -> float:
        """The end where it is easiest to attain."""
        return self.high if self.hard == "low" else self.low

    @property
    def hard_end(self) -> float:
        """The other end."""
        return self.low if self.hard == "low" else self.high

    def harder(self, a: float, b: float) -> bool:
        """Whether `a` is harder to attain at than `b`."""
        return a < b if self.hard == "low" else a > b

    def missed(self, known: Mapping[float, bool]) -> float | None:
        """The easiest value that was tried and does not attain."""
        misses = [value for value, attains in known.items() if not attains]
        return None if not misses else max(misses) if self.hard == "low" else min(misses)

    def reached(self, known: Mapping[float, bool]) -> float | None:
        """The hardest value such that it, and all easier ones that were tried, attain."""
        missed = self.missed(known)
        fine = [v for v, attains in known.items() if attains and (missed is None or self.harder(missed, v))]
        return None if not fine else min(fine) if self.hard == "low" else max(fine)

    def contradictions(self, known: Mapping[float, bool]) -> tuple[float, ...]:
        """Values that attain although an easier one was tried that does not, the easiest first."""
        missed = self.missed(known)
        found = [v for v, attains in known.items() if attains and missed is not None and self.harder(v, missed)]
        return tuple(sorted(found, reverse=self.hard == "low"))

    def next(self, known: Mapping[float, bool]) -> float | None:
        """The value to try next; None when nothing remains to be tried.

        Parameters
        ----------
        known : mapping of float to bool
            What was tried, here or by anyone else, and whether it attains.
        """
        # The easy end comes first: if even that misses, nothing else can attain and one try was enough.
        if self.easy_end not in known:
            return self.easy_end
        if not known[self.easy_end]:
            return None
        if self.hard_end not in known:
            return self.hard_end
        reached, missed = self.reached(known), self.missed(known)
        if reached is None or missed is None:
            return None
        if max(missed, reached) / min(missed, reached) <= 1 + self.tolerance:
            return None
        if self.whole:
            middle = float((reached + missed) // 2 // self.step * self.step)
        else:
            middle = self._between(reached, missed)
        return middle if min(missed, reached) < middle < max(missed, reached) else None

    def _between(self, a: float, b: float) -> float:
        """Geometric mean, in as few digits as the tolerance needs: such values are easier to read and to ask again."""
        middle = math.sqrt(a * b)
        # With so many digits, rounding moves the middle by less than a hundredth of the tolerance.
        short = float(f"{middle:.{max(4, 3 - math.floor(math.log10(self.tolerance)))}g}")
        return short if min(a, b) < short < max(a, b) else middle
