"""`Spread`: how the time of one and the same piece of work varies, from visit to visit and in the course of time.

A profile's latency is a mean. What a device really takes differs from it in two ways. Visits differ from each other
(caches, interrupts), which averages out within a few of them. And devices have slow seconds that come in runs (clocks,
neighbours on the same machine), which do not: a queue that meets one grows as long as it lasts. So a spread holds a
factor that every visit draws anew, and a path of factors over time. A device that has rested begins cold (its caches
were used by others, its core slept), which no mean shows: a third factor goes by how long it did nothing. The path is
either a recording, which is replayed from a random place and keeps all that was in it, at any scale of time and between
devices, or is made from quantiles and a correlation time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..reprs import Shown

__all__ = ["CONSTANT", "NO_VARIATION", "Spread", "Variation", "at"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, repr=False)
class Spread(Shown):
    """Factors on a profile's time. The default never varies.

    Parameters
    ----------
    visits : tuple of float
        Quantiles of the factor that each visit draws for itself: n numbers, ascending, at probabilities (k + 1/2) / n;
        linear between them, constant beyond. Its mean is the plain mean of these numbers.
    runs : tuple of float
        Likewise of a factor that hangs together in time; each device has a path of its own.
    correlation_s : float
        Time over which that factor's correlation falls to 1/e, seconds (a Gaussian copula over a first-order
        autoregression). Needed where `runs` holds more than one number.
    paths : tuple of tuple of float
        A recording instead of `runs`: for each device that was recorded at the same time, a factor for each window of
        time. Devices of a simulation take these in turn.
    window_s : float
        Seconds of a window.
    rests : tuple of (float, float)
        Seconds, ascending, and factors: a visit before which its device did nothing for at least so long takes so many
        times as long; 1 for less than the first. Serving alone knows how long a device rests.
    level_sd : float
        How well the mean of all is known: standard deviation of one more factor, which is drawn once for a whole run
        (normal around 1). From a few rounds of measurement it is their standard error.

    Raises
    ------
    InputError
        On factors that are no positive finite numbers or, as quantiles, not ascending; on rests not in order; on paths
        of unequal lengths; on seconds out of their range.
    """

    visits: tuple[float, ...] = (1.0,)
    runs: tuple[float, ...] = (1.0,)
    correlation_s: float = 0.0
    paths: tuple[tuple[float, ...], ...] = ()
    window_s: float = 0.02
    rests: tuple[tuple[float, float], ...] = ()
    level_sd: float = 0.0

    def __post_init__(self) -> None:
        for name in ("visits", "runs"):
            quantiles = _factors(name, getattr(self, name))
            if (np.diff(quantiles) < 0).any():
                raise InputError(f"spread: {name}: expected quantiles in ascending order (got {quantiles.tolist()})")
        for device, path in enumerate(self.paths):
            _factors(f"paths[{device}]", path)
            if len(path) != len(self.paths[0]):
                raise InputError(
                    f"spread: paths: expected one length, as devices were recorded at once (got {len(self.paths[0])} "
                    f"windows for device 0, {len(path)} for device {device})"
                )
        if self.rests:
            _factors("rests", [factor for _, factor in self.rests])
            seconds = [idle for idle, _ in self.rests]
            if not all(math.isfinite(idle) and idle >= 0 for idle in seconds) or sorted(set(seconds)) != seconds:
                raise InputError(f"spread: rests: expected finite seconds >= 0 in ascending order (got {seconds})")
        if not (math.isfinite(self.correlation_s) and self.correlation_s >= 0):
            raise InputError(f"spread: correlation_s: expected finite seconds >= 0 (got {self.correlation_s})")
        if not (math.isfinite(self.window_s) and self.window_s > 0):
            raise InputError(f"spread: window_s: expected finite seconds > 0 (got {self.window_s})")
        if not 0 <= self.level_sd < 0.5:
            raise InputError(f"spread: level_sd: expected a share in [0, 0.5) (got {self.level_sd})")
        if len(self.runs) > 1 and not self.correlation_s:
            raise InputError("spread: runs: needs correlation_s > 0; factors that do not hang together go into visits")
        if len(self.runs) > 1 and self.paths:
            raise InputError("spread: give one of runs (quantiles) and paths (a recording)")

    def _headline(self) -> str:
        return self.explain()

    @property
    def constant(self) -> bool:
        """Whether nothing varies and every factor is 1."""
        return self == CONSTANT

    @property
    def mean(self) -> float:
        """Mean factor of visits without a rest before them."""
        path = float(np.mean(self.paths)) if self.paths else float(np.mean(self.runs))
        return float(np.mean(self.visits)) * path

    @property
    def recorded_s(self) -> float:
        """Length of the recording, seconds; 0 without one."""
        return len(self.paths[0]) * self.window_s if self.paths else 0.0

    def quantile(self, probability: float) -> float:
        """The factor that a visit at a random time does not exceed with this probability, 0 … 1."""
        if not 0 <= probability <= 1:
            raise InputError(f"spread: probability: expected 0 … 1 (got {probability})")
        # Both factors are independent: all products of a grid of each, equally likely.
        grid = (np.arange(400) + 0.5) / 400
        values = np.sort(np.ravel(self.paths)) if self.paths else np.asarray(self.runs)
        return float(np.quantile(np.outer(at(np.asarray(self.visits), grid), at(values, grid)), probability))

    def normalised(self) -> Spread:
        """The same variation around a mean of 1."""
        from dataclasses import replace

        def scaled(values: Sequence[float]) -> tuple[float, ...]:
            return tuple((np.asarray(values) / np.mean(values)).tolist())

        middle = float(np.mean(self.paths)) if self.paths else 1.0
        return replace(
            self, visits=scaled(self.visits), runs=scaled(self.runs),
            paths=tuple(tuple((np.asarray(path) / middle).tolist()) for path in self.paths),
        )  # fmt: skip

    def scaled(self, factor: float) -> Spread:
        """The same variation with all factors `factor` times as large."""
        from dataclasses import replace

        if not (math.isfinite(factor) and factor > 0):
            raise InputError(f"spread: expected a positive finite factor (got {factor})")
        if self.paths:
            return replace(self, paths=tuple(tuple((factor * np.asarray(path)).tolist()) for path in self.paths))
        return replace(self, visits=tuple((factor * np.asarray(self.visits)).tolist()))

    def explain(self) -> str:
        """The variation in one line."""
        if self.constant:
            return "no variation"
        q = [self.quantile(p) for p in (0.05, 0.5, 0.95, 0.99)]
        told = f"p5 {q[0]:.3f}, p50 {q[1]:.3f}, p95 {q[2]:.3f}, p99 {q[3]:.3f} of the mean"
        if self.paths:
            told += f"; {self.recorded_s:.0f} s recorded on {len(self.paths)} devices"
        elif len(self.runs) > 1:
            told += f"; correlated over {self.correlation_s:g} s"
        if self.rests:
            told += "; " + ", ".join(f"{factor:.3f} after {1e3 * idle:g} ms idle" for idle, factor in self.rests)
        return told + (f"; mean known to {self.level_sd:.1%}" if self.level_sd else "")

    def to_dict(self) -> dict[str, Any]:
        """As plain data: what differs from the default."""
        plain = {"visits": list(self.visits), "runs": list(self.runs), "correlation_s": self.correlation_s,
                 "paths": [list(path) for path in self.paths], "window_s": self.window_s,
                 "rests": [list(rest) for rest in self.rests], "level_sd": self.level_sd}  # fmt: skip
        usual = CONSTANT.to_dict() if self is not CONSTANT else {}
        return {name: value for name, value in plain.items() if not usual or value != usual[name]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Spread:
        """Read what `to_dict` wrote.

        Raises
        ------
        InputError
            On an unknown field or a value of the wrong kind.
        """
        if not isinstance(data, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"spread: expected its fields by name (got {data!r})")
        known = set(CONSTANT.to_dict())
        unknown = [name for name in data if name not in known]
        if unknown:
            raise InputError(f"spread: unknown field {unknown[0]!r}; expected {', '.join(sorted(known))}")
        taken: dict[str, Any] = dict(data)
        for name in ("visits", "runs"):
            if name in taken:
                taken[name] = _numbers(name, taken[name])
        if "paths" in taken:
            taken["paths"] = tuple(_numbers("paths", path) for path in _rows("paths", taken["paths"]))
        if "rests" in taken:
            rows = [_numbers("rests", rest) for rest in _rows("rests", taken["rests"])]
            if any(len(row) != 2 for row in rows):
                raise InputError(f"spread: rests: expected pairs of seconds and a factor (got {taken['rests']!r})")
            taken["rests"] = tuple((idle, factor) for idle, factor in rows)
        for name in ("correlation_s", "window_s", "level_sd"):
            if name in taken and (isinstance(taken[name], bool) or not isinstance(taken[name], int | float)):
                raise InputError(f"spread: {name}: expected a number (got {taken[name]!r})")
        return cls(**taken)

    @classmethod
    def of_visits(
        cls, start: FloatArray, seconds: FloatArray, expected: FloatArray, device: npt.NDArray[np.integer],
        window_s: float = 0.02,
    ) -> Spread:  # fmt: skip
        """A recording of measured visits.

        A window takes the factor of the visit that was under way in its middle, or else of the nearest one: what an
        idle device would have done is not known. Windows in which all devices were idle are left out: visits far apart
        would count by the pauses between them. Factors are 1 in the mean over time.

        Parameters
        ----------
        start, seconds, expected : ndarray of float64, shape (n,)
            When each visit began and how long it took, and what it takes in the mean, seconds.
        device : ndarray of int, shape (n,)
            On which device.
        window_s : float
            Seconds of a window; about as long as a visit.

        Raises
        ------
        InputError
            If nothing was measured, or times are no positive finite numbers.
        """
        if not len(start):
            raise InputError("spread: no visit was measured")
        ratio = _factors("seconds / expected", seconds / expected)
        begin, end = float(start.min()), float((start + seconds).max())
        n = max(1, round((end - begin) / window_s))
        middle = np.asarray(begin + (np.arange(n) + 0.5) * window_s, dtype=np.float64)
        paths: list[FloatArray] = []
        for one in np.unique(device):
            mine = np.flatnonzero(device == one)
            mine = mine[np.argsort(start[mine])]
            paths.append(ratio[mine][_nearest(middle, start[mine], start[mine] + seconds[mine])])
        first = np.clip(((start - begin) / window_s).astype(np.int64), 0, n - 1)
        last = np.clip(((start + seconds - begin) / window_s).astype(np.int64), 0, n - 1)
        change = np.bincount(first, minlength=n + 1) - np.bincount(last + 1, minlength=n + 1)
        whole = np.stack(paths)[:, np.cumsum(change)[:n] > 0]
        whole /= whole.mean()
        return cls(paths=tuple(tuple(np.round(path, 4).tolist()) for path in whole), window_s=window_s)


def at(quantiles: FloatArray, probability: FloatArray) -> FloatArray:
    """The values at these probabilities of what has these quantiles at (k + 1/2) / n."""
    return np.interp(probability * len(quantiles) - 0.5, np.arange(len(quantiles)), quantiles)


def _nearest(middle: FloatArray, start: FloatArray, end: FloatArray) -> npt.NDArray[np.int64]:
    """Index of the visit under way at each time, or of the nearest one; visits ascend and do not overlap."""
    before = np.clip(np.searchsorted(start, middle, side="right") - 1, 0, len(start) - 1)
    after = np.clip(before + 1, 0, len(start) - 1)
    return np.where(middle - end[before] <= start[after] - middle, before, after)


def _factors(name: str, values: Any) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not len(array):
        raise InputError(f"spread: {name}: expected at least one factor in a row (got shape {array.shape})")
    wrong = ~(np.isfinite(array) & (array > 0))
    if wrong.any():
        raise InputError(f"spread: {name}: expected positive finite factors (got {array[wrong][0]})")
    return array


def _rows(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise InputError(f"spread: {name}: expected a list (got {value!r})")
    return list(cast(Sequence[Any], value))


def _numbers(name: str, value: Any) -> tuple[float, ...]:
    row = _rows(name, value)
    bad = [x for x in row if isinstance(x, bool) or not isinstance(x, int | float)]
    if bad:
        raise InputError(f"spread: {name}: expected numbers (got {bad[0]!r})")
    return tuple(float(x) for x in row)


CONSTANT = Spread()
"""No variation: every visit takes the profile's time."""


@dataclass(frozen=True, slots=True, repr=False)
class Variation(Shown):
    """How the times of a serving system vary, each as factors on what a profile says.

    Parameters
    ----------
    stages : Spread
        Of a stage's time, by device.
    hops : Spread
        Of the time from the end of a stage to the next one, by group.
    answers : Spread
        Of the overhead on top of the last stage's end, by group.

    Raises
    ------
    InputError
        If hops or answers hang on rests.
    """

    stages: Spread = CONSTANT
    hops: Spread = CONSTANT
    answers: Spread = CONSTANT

    def __post_init__(self) -> None:
        for name in ("hops", "answers"):
            if getattr(self, name).rests:
                raise InputError(f"variation: {name}: rests are of stages alone")

    def _headline(self) -> str:
        return self.explain()

    @property
    def constant(self) -> bool:
        """Whether nothing varies."""
        return self == NO_VARIATION

    def explain(self) -> str:
        """Each part that varies, in one line."""
        parts = [(name, getattr(self, name)) for name in ("stages", "hops", "answers")]
        return "; ".join(f"{name}: {spread.explain()}" for name, spread in parts if not spread.constant) or "none"

    def to_dict(self) -> dict[str, Any]:
        """As plain data: what varies."""
        parts = {name: getattr(self, name) for name in ("stages", "hops", "answers")}
        return {name: spread.to_dict() for name, spread in parts.items() if not spread.constant}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Variation:
        """Read what `to_dict` wrote.

        Raises
        ------
        InputError
            On an unknown part, or a spread that is none.
        """
        unknown = [name for name in data if name not in ("stages", "hops", "answers")]
        if unknown:
            raise InputError(f"variation: unknown part {unknown[0]!r}; expected stages, hops or answers")
        return cls(**{name: Spread.from_dict(spread) for name, spread in data.items()})


NO_VARIATION = Variation()
"""Every time is the profile's."""
