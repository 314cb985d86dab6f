"""`Forecast`: figures of runs that were drawn: what is to be expected, and where a run of that length lies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..reprs import Shown

__all__ = ["COVERAGE", "Forecast", "check_draws"]

FloatArray = npt.NDArray[np.float64]

COVERAGE = 0.95
"""Share of runs that an interval is meant for."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Forecast(Shown):
    """Figures of the runs that were drawn.

    Parameters
    ----------
    runs : mapping
        Figure -> its value in each run.

    Raises
    ------
    InputError
        Without any run, or on figures of unlike numbers of runs.
    """

    runs: Mapping[str, FloatArray]

    def __post_init__(self) -> None:
        lengths = {len(values) for values in self.runs.values()}
        if len(lengths) != 1 or 0 in lengths:
            raise InputError(f"forecast: expected figures of as many runs, one at least (got {sorted(lengths)})")

    def _headline(self) -> str:
        told = (f"{name} {self.expected(name):.4g} ({low:.4g} to {high:.4g})" for name, (low, high) in self.intervals())
        return f"{self.draws} draws: {', '.join(told)}"

    @property
    def draws(self) -> int:
        """Runs."""
        return len(next(iter(self.runs.values())))

    @property
    def coverage(self) -> float:
        """The share of runs that `interval` covers: `COVERAGE`, or what so few draws can hold.

        Of n draws and one run that follows the same law each rank of the run among them is as likely: it lies between
        smallest and largest with probability (n - 1) / (n + 1).
        """
        return min(COVERAGE, (self.draws - 1) / (self.draws + 1))

    def expected(self, name: str) -> float:
        """Mean of a figure."""
        return float(np.mean(self.runs[name]))

    def interval(self, name: str) -> tuple[float, float]:
        """Prediction interval of a figure of one run: quantiles at k / (n + 1) (Weibull), which need no law."""
        tail = (1 - COVERAGE) / 2
        low, high = np.quantile(self.runs[name], [tail, 1 - tail], method="weibull")
        return float(low), float(high)

    def intervals(self) -> list[tuple[str, tuple[float, float]]]:
        """All of them."""
        return [(name, self.interval(name)) for name in self.runs]

    def inside(self, name: str, value: float) -> bool:
        """Whether a run with this figure is one of those that were to be expected."""
        low, high = self.interval(name)
        return low <= value <= high

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "draws": self.draws,
            "coverage": self.coverage,
            "figures": {name: {"expected": self.expected(name), "low": low, "high": high}
                        for name, (low, high) in self.intervals()},
        }  # fmt: skip


def check_draws(draws: Any) -> None:
    """Refuse what is no number of draws.

    Raises
    ------
    InputError
        On fewer than two, of which no interval can be made.
    """
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < 2:
        raise InputError(f"draws: expected an integer >= 2, for an interval (got {draws!r})")
