"""`Levels`: how fast the machine was from run to run, and so how fast it was for requests near or between them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Levels"]

FloatArray = npt.NDArray[np.float64]

NEAR_S = 10.0
"""A round counts 1/e as much for a run that is so much further away. Virtual machines change by 5 to 20 % within
minutes: the rounds near a run say more about it than all together. Among 8 to 120 s, on one table of 34 runs, 8 to 30 s
were alike (docs/run.md)."""


@dataclass(frozen=True, eq=False)
class Levels:
    """Mean factor of each round's stage times on what was expected.

    Parameters
    ----------
    factor : ndarray of float64, shape (rounds,)
        The factors.
    visits : ndarray of int64, shape (rounds,)
        Visits that each is the mean of, at least one.
    when_s : ndarray of float64, shape (rounds,), optional
        When each round took place, seconds; without it all are as near to any run.
    apart : ndarray of float64, shape (rounds,), optional
        Where the stretches of a run tell by turns: how far every other one of those that tell is from the rest of them,
        as a share; NaN where there are too few visits.
    """

    factor: FloatArray
    visits: npt.NDArray[np.int64]
    when_s: FloatArray | None = None
    apart: FloatArray | None = None

    @property
    def drift(self) -> float:
        """Standard deviation of the factors, which count by their visits, as a share; NaN of fewer than two rounds."""
        if len(self.factor) < 2:
            return math.nan
        share = self.visits / self.visits.sum()
        alike = 1 / float(np.sum(share**2))  # rounds of equal size that would tell as much
        return math.sqrt(float(np.sum(share * (self.factor - self.at()) ** 2)) * alike / (alike - 1))

    def at(self, when_s: float | None = None) -> float:
        """The factor that a run at that time is expected to have; the mean of all if no time is given."""
        return self._mean(np.arange(len(self.factor)), when_s)

    @property
    def error(self) -> float:
        """How far off `at` is, as a share, root mean square.

        Of rounds that lie apart from what they tell about: over rounds that are expected by the others; 0 of one. Of
        stretches that tell by turns: half of `apart`. If stretches vary by s and m of them tell, the mean of these is
        known to s / sqrt(m), and two halves of them differ by 2 s / sqrt(m). That the judged stretches vary, too, is in
        the draws, which replay the recording; that neighbours are alike makes this too large rather than too small.
        """
        n = len(self.factor)
        if self.apart is not None:
            known = np.isfinite(self.apart)
            if known.any():
                return math.sqrt(float(np.average(self.apart[known] ** 2, weights=self.visits[known]))) / 2
        if n < 2:
            return 0.0
        told = [
            self._mean(np.delete(np.arange(n), k), None if self.when_s is None else self.when_s[k]) for k in range(n)
        ]
        return math.sqrt(float(np.average((self.factor / np.array(told) - 1) ** 2, weights=self.visits)))

    def error_at(self, when_s: float) -> float:
        """`error` for a run at that time: larger where the nearest round has fewer visits than most."""
        if self.apart is None or self.when_s is None:
            return self.error
        usual = float(np.average(self.visits, weights=self.visits))
        return self.error * math.sqrt(max(1.0, usual / self.visits[int(np.argmin(np.abs(self.when_s - when_s)))]))

    def _mean(self, rounds: npt.NDArray[np.int64], when_s: float | None) -> float:
        weight = self.visits[rounds].astype(np.float64)
        if self.when_s is not None and when_s is not None:
            away = np.abs(self.when_s[rounds] - when_s)
            weight *= np.exp(-(away - away.min()) / NEAR_S)
        return float(np.average(self.factor[rounds], weights=weight))
