"""`Range`: evenly spaced values between two ends, worked out as they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

__all__ = ["Range", "rounded"]

DIGITS = 12
"""Significant digits of a value that is worked out: what a person would have written."""


def rounded(value: float) -> float:
    """`value` to 12 significant digits."""
    return float(f"{value:.{DIGITS}g}")


@dataclass(frozen=True, slots=True)
class Range(Sequence[Any]):
    """Values from `low` to `high`.

    Parameters
    ----------
    low, high : float or int
        The ends. `high` is a value too, unless a `step` does not land on it.
    n : int
        How many values.
    scale : {"linear", "log"}
        Equal differences, or equal ratios.
    whole : bool
        Round to whole numbers.
    step : float or int, optional
        Difference between values, where that was said and not their number.
    sampled : bool
        Neither was said: the range is there to be sampled, and `n` is 2, its ends.
    """

    low: Any
    high: Any
    n: int
    scale: Literal["linear", "log"] = "linear"
    whole: bool = False
    step: Any = None
    sampled: bool = False

    def __len__(self) -> int:
        return self.n

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Any, ...]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(self.n)[index])
        i = range(self.n)[index]
        if self.step is not None:
            return self._value(self.low + i * self.step)
        if i in (0, self.n - 1):
            return self._value(self.high if i else self.low)
        return self._between(i / (self.n - 1))

    def at(self, part: float) -> Any:
        """The value that `part` (0 to 1, below 1) of the way along the range leads to; no step or number of values
        counts here, and each whole number has an equal share of the way (on a log scale, its share of the logarithm).
        """
        if not self.whole:
            return self._between(part)
        low, high = self.low, self.high + 1
        value = low * (high / low) ** part if self.scale == "log" else low + part * (high - low)
        return min(int(value), self.high)

    def document(self) -> dict[str, Any]:
        """As a study file says it."""
        said: dict[str, Any] = {"from": self.low, "to": self.high}
        if self.step is not None:
            said["step"] = self.step
        elif not self.sampled:
            said["points"] = self.n
        return said if self.scale == "linear" else {**said, "scale": self.scale}

    def _between(self, part: float) -> Any:
        if self.scale == "log":
            return self._value(self.low * (self.high / self.low) ** part)
        return self._value(self.low + part * (self.high - self.low))

    def _value(self, value: float) -> Any:
        return round(value) if self.whole else rounded(value)
