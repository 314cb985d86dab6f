"""`draw`: from a `Spread` to the factors of one run, the same for every engine.

Each device has streams of its own under the caller's seed, so that one more device changes nothing for the others, and
plans that are simulated under one seed meet the same slow seconds on the same devices (common random numbers). A
visit's own factor is a hash of the device's key and of how many visits the device had before: whoever asks, in whatever
order, gets the same number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..profiles.spread import Spread, at
from ..seeds import generator

__all__ = ["Draws", "draw"]

FloatArray = npt.NDArray[np.float64]

MAX_WINDOWS = 2**18
"""Windows of a path, after which it begins again; keeps long simulations of many devices within memory."""

_MASK = 2**64 - 1


def _mix(key: int, count: int) -> int:
    """64 well mixed bits of a key and a count: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    z = (key + (count + 1) * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """The factors of one run.

    Parameters
    ----------
    window_s : float
        Seconds of a window of `slow`.
    slow : ndarray of float64, shape (devices, windows)
        Factor on what starts in each window; begins again after the last one.
    keys : ndarray of uint64, shape (devices,)
        Of each device's visits.
    visits : ndarray of float64, shape (quantiles,)
        Quantiles of the factor that each visit draws, as `Spread.visits`.
    rest_s, rest : ndarray of float64, shape (rests,)
        Seconds and factors of `Spread.rests`.
    """

    window_s: float
    slow: FloatArray
    keys: npt.NDArray[np.uint64]
    visits: FloatArray
    rest_s: FloatArray = field(default_factory=lambda: np.zeros(0))
    rest: FloatArray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        if self.slow.ndim != 2 or not self.slow.shape[1] or len(self.keys) != len(self.slow) or not len(self.visits):
            raise InputError(
                f"draws: expected a path and a key for each device, and quantiles (got {self.slow.shape}, "
                f"{self.keys.shape}, {self.visits.shape})"
            )

    def __len__(self) -> int:
        """Devices."""
        return len(self.slow)

    def ratio(self, device: int, at_s: float, visit: int) -> float:
        """The factor of a device's `visit`-th visit (from 0), which starts at `at_s` seconds >= 0.

        The same as the compiled `ratio.ratio`, bit for bit.
        """
        path = self.slow[device]
        slow = float(path[int(at_s / self.window_s) % len(path)])
        n = len(self.visits)
        if n == 1:
            return slow * float(self.visits[0])
        place = (_mix(int(self.keys[device]), visit) >> 11) * 2.0**-53 * n - 0.5
        if place <= 0.0:
            return slow * float(self.visits[0])
        if place >= n - 1:
            return slow * float(self.visits[n - 1])
        low = int(place)
        a, b = float(self.visits[low]), float(self.visits[low + 1])
        return slow * (a + (b - a) * (place - low))

    def rested(self, idle_s: float) -> float:
        """The factor of a visit before which its device did nothing for so long; as the compiled `ratio.rested`."""
        known = int(np.searchsorted(self.rest_s, idle_s, side="right"))
        return float(self.rest[known - 1]) if known else 1.0


def draw(
    spread: Spread, devices: int, horizon_s: float, seed: int, *names: str | int, resting: bool = False
) -> Draws:  # fmt: skip
    """Draw the factors of one run.

    Parameters
    ----------
    spread : Spread
        What varies, and how.
    devices : int
        Devices, at least 1.
    horizon_s : float
        Seconds that the run will take, about; factors repeat after that.
    seed : int
        Seed.
    *names : str or int
        Name of the streams under that seed, such as ``"stages"`` or ``"hops"``.
    resting : bool
        Whether who draws knows how long a device has rested.

    Raises
    ------
    InputError
        On an argument out of its range, or rests that nobody knows.
    """
    if isinstance(devices, bool) or devices < 1:
        raise InputError(f"draws: devices: expected at least 1 (got {devices})")
    if not (math.isfinite(horizon_s) and horizon_s >= 0):
        raise InputError(f"draws: horizon_s: expected finite seconds >= 0 (got {horizon_s})")
    if spread.rests and not resting:
        raise InputError("spread: rests: only the stages of a serving plan are known to rest; leave them out here")
    window_s, slow = _paths(spread, devices, horizon_s, seed, names)
    if spread.level_sd:
        level = generator(seed, "spread", *names, "level").normal(1.0, spread.level_sd)
        slow = slow * max(level, 0.1)  # sd is below 0.5: only one draw in thirty at the very widest is cut
    keys = np.array(
        [generator(seed, "spread", *names, "visits", d).integers(0, 2**64, dtype=np.uint64) for d in range(devices)]
    )
    rests = np.array(spread.rests, dtype=np.float64).reshape(-1, 2)
    return Draws(
        window_s, np.ascontiguousarray(slow), keys, np.asarray(spread.visits, dtype=np.float64),
        np.ascontiguousarray(rests[:, 0]), np.ascontiguousarray(rests[:, 1]),
    )  # fmt: skip


def _paths(
    spread: Spread, devices: int, horizon_s: float, seed: int, names: tuple[str | int, ...]
) -> tuple[float, FloatArray]:
    """Seconds of a window, and factors of shape (devices, windows)."""
    if spread.paths:
        recorded = np.asarray(spread.paths)
        length = recorded.shape[1]
        n = _windows(horizon_s, spread.window_s)
        # One place for all devices, which were recorded at once; the recording goes round, so every place is as likely.
        places = generator(seed, "spread", *names, "places").integers(0, length, size=-(-n // length))
        index = ((places[:, None] + np.arange(length)) % length).ravel()[:n]
        return spread.window_s, recorded[np.arange(devices) % len(recorded)][:, index]
    if len(spread.runs) == 1:
        return 1.0, np.full((devices, 1), spread.runs[0])
    window_s = spread.correlation_s / 10  # fine enough: neighbours are correlated by 0.9
    n = _windows(horizon_s, window_s)
    return window_s, np.stack(
        [_wander(spread, n, generator(seed, "spread", *names, "runs", d)) for d in range(devices)]
    )


def _windows(horizon_s: float, window_s: float) -> int:
    return min(int(horizon_s / window_s) + 1, MAX_WINDOWS)


def _wander(spread: Spread, n: int, rng: np.random.Generator) -> FloatArray:
    """A path of `n` windows whose values have the quantiles `runs`, correlated over `correlation_s`."""
    from scipy.signal import lfilter
    from scipy.special import ndtr

    kept = math.exp(-0.1)  # from window to window
    noise = rng.standard_normal(n) * math.sqrt(1 - kept**2)
    first = rng.standard_normal()  # stationary from the beginning on
    filtered: Any = lfilter([1.0], [1.0, -kept], noise, zi=[kept * first])
    probability: Any = ndtr(filtered[0])
    return at(np.asarray(spread.runs), probability)
