"""`Drift` and `Bursts`: how the functions of synthetic traffic share it, and how their rates change over time.

AlpaServe describes both characters in words only (§1, §6.2), so the default values are guesses that give such traffic;
only Bursts' peak of 50 times the mean is the paper's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...errors import InputError
from ...reprs import Shown

__all__ = ["Bursts", "Drift"]


@dataclass(frozen=True, slots=True, repr=False)
class Drift(Shown):
    """Rates that change slowly: the law of `maf1_like`.

    Parameters
    ----------
    functions : int, optional
        Number of functions, at least one per model; 10 per model if not given.
    spread : float
        Standard deviation of the logarithm of the functions' mean rates.
    drift : float
        Standard deviation of the logarithm of a function's rate over time.
    relaxation : float
        Seconds in which the drift of a rate is forgotten by a factor e.
    cv : float
        Coefficient of variation of the gaps at a constant rate.
    window : float
        Seconds in which a rate stays constant.

    Raises
    ------
    InputError
        On a number out of range.
    """

    functions: int | None = None
    spread: float = 0.5
    drift: float = 0.25
    relaxation: float = 1800.0
    cv: float = 1.0
    window: float = 60.0

    def __post_init__(self) -> None:
        _check_positive(relaxation=self.relaxation, cv=self.cv, window=self.window)
        _check_at_least_zero(spread=self.spread, drift=self.drift)


@dataclass(frozen=True, slots=True, repr=False)
class Bursts(Shown):
    """Skewed functions that idle and burst: the law of `maf2_like`.

    Parameters
    ----------
    functions : int, optional
        Number of functions, at least one per model; 3 per model if not given.
    skew : float
        Standard deviation of the logarithm of the functions' mean rates.
    peak : float
        Highest rate of a function in any window, as a multiple of its mean over the trace; > 1.
    burst_share : float
        Share of a function's requests that come in bursts, in [0, 1); less in traces too short to hold bursts.
    burst_length : float
        Mean length of a burst, seconds.
    cv : float
        Coefficient of variation of the gaps at a constant rate.
    window : float
        Seconds in which a rate stays constant.

    Raises
    ------
    InputError
        On a number out of range.
    """

    functions: int | None = None
    skew: float = 2.0
    peak: float = 50.0
    burst_share: float = 0.7
    burst_length: float = 180.0
    cv: float = 2.0
    window: float = 60.0

    def __post_init__(self) -> None:
        _check_positive(burst_length=self.burst_length, cv=self.cv, window=self.window)
        _check_at_least_zero(skew=self.skew)
        if not (math.isfinite(self.peak) and self.peak > 1):
            raise InputError(f"maf2_like: peak must be finite and > 1 (got {self.peak})")
        if not 0 <= self.burst_share < 1:
            raise InputError(f"maf2_like: burst_share must be in [0, 1) (got {self.burst_share})")


def _check_positive(**values: float) -> None:
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise InputError(f"{name}: expected a positive and finite number (got {value})")


def _check_at_least_zero(**values: float) -> None:
    for name, value in values.items():
        if not (math.isfinite(value) and value >= 0):
            raise InputError(f"{name}: expected a finite number >= 0 (got {value})")
