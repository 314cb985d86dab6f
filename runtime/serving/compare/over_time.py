"""Attainment over time of a run in which groups were away, beside what was simulated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ....reprs import Shown
from ....simulator.serving.conditions import Conditions
from ....simulator.serving.outages import Outages
from ....simulator.serving.result import SimulationResult
from ....simulator.serving.times import ServingTimes
from ..breaks import Break
from ..result import RunResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["OverTime", "chart", "conditions_of", "over_time", "shares"]

LEVEL = 0.95


@dataclass(frozen=True, eq=False, repr=False)
class OverTime(Shown):
    """Share of each window's arrivals that attained their SLO.

    Parameters
    ----------
    window_s : float
        Length of a window, seconds; requests belong to the window in which they arrive.
    arrivals : ndarray of int64, shape (windows,)
        Requests of each.
    real : ndarray of float64, shape (windows,)
        As it ran; NaN where none arrived.
    draws : ndarray of float64, shape (draws, windows)
        As simulated.
    totals : ndarray of float64, shape (draws,)
        Attainment of all requests in each draw.
    attainment : float
        The same for real.
    """

    window_s: float
    arrivals: npt.NDArray[np.int64]
    real: npt.NDArray[np.float64]
    draws: npt.NDArray[np.float64]
    totals: npt.NDArray[np.float64]
    attainment: float

    @property
    def interval(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """What `LEVEL` of the draws lie between in each window."""
        tail = (1 - LEVEL) / 2
        low = np.quantile(self.draws, tail, axis=0, method="lower")
        return low, np.quantile(self.draws, 1 - tail, axis=0, method="higher")

    @property
    def inside(self) -> npt.NDArray[np.bool_]:
        """Whether each window with arrivals was inside its interval."""
        low, high = self.interval
        there = self.arrivals > 0
        slack = 1e-9
        return ((self.real >= low - slack) & (self.real <= high + slack))[there]

    def __str__(self) -> str:
        tail = (1 - LEVEL) / 2
        low = float(np.quantile(self.totals, tail, method="lower"))
        high = float(np.quantile(self.totals, 1 - tail, method="higher"))
        held = "inside" if low - 1e-9 <= self.attainment <= high + 1e-9 else "outside"
        return (
            f"simulated with the same failures: attainment {self.totals.mean():.2%} ({low:.2%} to {high:.2%}), real "
            f"{self.attainment:.2%}, {held}; {int(self.inside.sum())} of {len(self.inside)} windows of "
            f"{self.window_s:g} s inside their intervals"
        )


def shares(result: SimulationResult, window_s: float) -> npt.NDArray[np.float64]:
    """Share of each window's arrivals that attained; NaN where none arrived."""
    place = (result.trace.arrival // window_s).astype(np.int64)
    n = np.bincount(place)
    good = np.bincount(place, weights=result.attained.astype(np.float64), minlength=len(n))
    return np.divide(good, n, out=np.full(len(n), np.nan), where=n > 0)


def conditions_of(
    breaks: Sequence[Break], load_s: Mapping[int, float], retried: bool, times: ServingTimes | None
) -> Conditions:
    """The failures of a run as the simulator takes them: each group loads for `load_s` after its repair."""
    outages = Outages(
        np.array([one.group for one in breaks], dtype=np.int64),
        [one.at_s for one in breaks],
        [one.repaired_s + load_s[one.group] for one in breaks],
        "retried" if retried else "lost",
    )
    return Conditions(times, outages)


def over_time(
    result: RunResult, simulated: Callable[[int], SimulationResult], *, draws: int, window_s: float
) -> OverTime:
    """Put a run beside `draws` simulations of it.

    Parameters
    ----------
    result : RunResult
        What ran.
    simulated : callable
        Number of a draw -> its simulation.
    draws : int
        How many, at least 2.
    window_s : float
        Length of a window, seconds.

    Raises
    ------
    InputError
        On too few draws, or a window that is not > 0.
    """
    if draws < 2:
        raise InputError(f"draws: an interval needs at least 2 (got {draws})")
    if not window_s > 0:
        raise InputError(f"window: expected seconds > 0 (got {window_s})")
    found = [simulated(k) for k in range(draws)]
    return OverTime(
        window_s,
        np.bincount((result.trace.arrival // window_s).astype(np.int64)),
        shares(result, window_s),
        np.array([shares(one, window_s) for one in found]),
        np.array([one.attainment for one in found]),
        result.attainment,
    )


def chart(found: OverTime, result: RunResult) -> Figure:
    """Attainment over time, real and simulated, and when groups were away."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    axes: Any = figure.subplots()
    middle = (np.arange(len(found.real)) + 0.5) * found.window_s
    low, high = found.interval
    axes.fill_between(middle, low, high, alpha=0.3, label=f"simulated, {LEVEL:.0%} of {len(found.draws)} draws")
    axes.plot(middle, found.draws.mean(axis=0), "--", label="simulated, mean")
    axes.plot(middle, found.real, "o-", label="real")
    for k, failure in enumerate(result.failures):
        back = [one.at_s for one in result.comebacks if one.group == failure.group and one.at_s > failure.at]
        end = min(back, default=float(middle[-1]))
        axes.axvspan(failure.at, end, color="0.85", zorder=0, label=None if k else "a group is away")
    axes.set(xlabel="time of arrival (s)", ylabel="share of requests within their SLO", ylim=(-0.02, 1.02))
    axes.legend(loc="lower right")
    return figure
