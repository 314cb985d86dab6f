"""Times of arrival at a rate."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ....seeds import generator

__all__ = ["renewal_times"]


def renewal_times(rate: float, n: int, *, cv: float = 1.0, seed: int = 0) -> npt.NDArray[np.float64]:
    """The first `n` arrivals of a Gamma renewal process; Poisson at `cv` 1.

    Parameters
    ----------
    rate : float
        Arrivals per second, > 0.
    n : int
        How many, >= 1.
    cv : float
        Coefficient of variation of the gaps, > 0; 0 for equal gaps.
    seed : int
        Seed, >= 0; lengths come from another stream, so they stay as they are.

    Raises
    ------
    InputError
        On a value out of its range.
    """
    if not (math.isfinite(rate) and rate > 0):
        raise InputError(f"rate: expected finite requests per second > 0 (got {rate})")
    if not (math.isfinite(cv) and cv >= 0):
        raise InputError(f"cv: expected a finite number >= 0 (got {cv})")
    if n < 1:
        raise InputError(f"n: expected at least one request (got {n})")
    rng = generator(seed, "llm", "arrivals")
    # Shape and scale of a Gamma distribution with mean 1 / rate and this coefficient of variation.
    gaps = rng.gamma(1 / cv**2, cv**2 / rate, n) if cv > 0 else np.full(n, 1 / rate)
    return np.cumsum(gaps)
