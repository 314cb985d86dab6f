"""What nobody waits for is no real run."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..errors import InputError

__all__ = ["check_real_time"]

LONGEST_S = 7 * 86_400.0
"""Seconds from the first request of a real run to the last; a week. Traffic that is longer is simulated."""

MOST_REQUESTS = 10_000_000
"""Of a real run."""


def check_real_time(arrivals: npt.NDArray[np.float64]) -> None:
    """Refuse traffic that nobody waits for: requests are sent when they arrive, on the clock of the wall.

    Raises
    ------
    InputError
        With the limits.
    """
    if len(arrivals) > MOST_REQUESTS:
        raise InputError(f"traffic: {len(arrivals):.3g} requests; a real run sends at most {MOST_REQUESTS:,}")
    last = float(arrivals.max()) if len(arrivals) else 0.0
    if last > LONGEST_S:
        raise InputError(
            f"traffic: the last request arrives after {last:.3g} s; a real run lasts at most {LONGEST_S:g} s: give "
            "fewer requests or a higher rate, or simulate it"
        )
