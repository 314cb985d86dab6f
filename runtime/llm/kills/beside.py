"""`Beside`: a run of an engine that was killed, over time, beside its simulations; and the picture of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ....reprs import Shown
from ....simulator.llm.forecast import COVERAGE, Forecast, figures
from ....simulator.llm.result.columns import LLMResult
from .ledger import KilledRun

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Beside", "Windows", "beside", "drawing"]

FloatArray = npt.NDArray[np.float64]
SLACK = 1e-9
"""Shares are quotients of counts: what differs by less is equal."""


@dataclass(frozen=True, eq=False, repr=False)
class Windows(Shown):
    """One figure in each window of time.

    Parameters
    ----------
    window_s : float
        Length of a window, seconds.
    real : ndarray of float64, shape (windows,)
        As it ran; NaN where there is nothing to tell.
    draws : ndarray of float64, shape (draws, windows)
        As simulated.
    """

    window_s: float
    real: FloatArray
    draws: FloatArray

    @property
    def interval(self) -> tuple[FloatArray, FloatArray]:
        """What `COVERAGE` of the draws lie between in each window."""
        tail = (1 - COVERAGE) / 2
        low = np.quantile(self.draws, tail, axis=0, method="lower")
        return low, np.quantile(self.draws, 1 - tail, axis=0, method="higher")

    @property
    def inside(self) -> npt.NDArray[np.bool_]:
        """Whether each window with something to tell lies in its interval."""
        low, high = self.interval
        there = ~np.isnan(self.real)
        return ((self.real >= low - SLACK) & (self.real <= high + SLACK))[there]

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        low, high = self.interval
        return {
            "window_s": self.window_s,
            "inside": int(self.inside.sum()),
            "of": len(self.inside),
            "windows": [
                {"from_s": k * self.window_s, "real": None if np.isnan(r) else float(r), "simulated": _or_none(m),
                 "low": _or_none(a), "high": _or_none(b)}
                for k, (r, m, a, b) in enumerate(zip(self.real, self.draws.mean(axis=0), low, high, strict=True))
            ],
        }  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Beside(Shown):
    """Real and simulated.

    Parameters
    ----------
    run : KilledRun
        What ran.
    attainment : Windows
        Share of the requests that arrived in a window which were served within the limits.
    throughput : Windows
        Tokens per second that came in a window, those of the last tries.
    totals : Forecast
        Figures of the whole run: those of `figures`, attainment, and seconds until all was done.
    ttft, tpot : float
        The limits, seconds.
    """

    run: KilledRun
    attainment: Windows
    throughput: Windows
    totals: Forecast
    ttft: float
    tpot: float

    @property
    def real(self) -> dict[str, float]:
        """Figures of the run."""
        return _totals(self.run.result, self.ttft, self.tpot)

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        run, told = self.run, self.totals.to_dict()
        return {
            "requests": len(run.result),
            "killed_s": list(run.struck),
            "back_s": [one.at_s for one in run.comebacks],
            "load_s": [one.load_s for one in run.comebacks],
            "retried": int((run.retries > 0).sum()),
            "lost_tokens": int(run.lost_tokens.sum()),
            "draws": told["draws"],
            "coverage": told["coverage"],
            "figures": {
                name: {"real": real, **told["figures"][name], "inside": self.totals.inside(name, real)}
                for name, real in self.real.items()
            },
            "attainment": self.attainment.to_dict(),
            "throughput": self.throughput.to_dict(),
        }


def beside(run: KilledRun, simulated: Sequence[LLMResult], *, ttft: float, tpot: float, window_s: float) -> Beside:
    """Put a run beside its simulations.

    Raises
    ------
    InputError
        On no simulation, or a window that is not > 0.
    """
    if not simulated or not window_s > 0:
        raise InputError(f"window: expected simulations, and seconds > 0 (got {len(simulated)} and {window_s})")
    everyone = [run.result, *simulated]
    last = max(float(one.iterations.end.max(initial=0.0)) for one in everyone)
    n = int(last // window_s) + 1
    shares = [_shares(one, window_s, ttft, tpot) for one in everyone]
    rates = [_rates(one, window_s, n) for one in everyone]
    totals = [_totals(one, ttft, tpot) for one in simulated]
    return Beside(
        run,
        Windows(window_s, shares[0], np.array(shares[1:])),
        Windows(window_s, rates[0], np.array(rates[1:])),
        Forecast({name: np.array([one[name] for one in totals]) for name in totals[0]}),
        ttft,
        tpot,
    )


def _totals(result: LLMResult, ttft: float, tpot: float) -> dict[str, float]:
    attained = float(result.good(ttft, tpot).mean())
    found = {k: v for k, v in figures(result).items() if k not in ("mean_batch", "preemptions")}
    return {"attainment": attained, **found, "done_s": float(np.nanmax(result.finish))}


def _shares(result: LLMResult, window_s: float, ttft: float, tpot: float) -> FloatArray:
    """By time of arrival."""
    place = (result.trace.arrival // window_s).astype(np.int64)
    n = np.bincount(place)
    good = np.bincount(place, weights=result.good(ttft, tpot).astype(np.float64), minlength=len(n))
    return np.divide(good, n, out=np.full(len(n), np.nan), where=n > 0)


def _rates(result: LLMResult, window_s: float, n: int) -> FloatArray:
    """By the time at which a token was there."""
    at = result.iterations.end[result.runs.tokens()]
    return np.bincount((at // window_s).astype(np.int64), minlength=n)[:n] / window_s


def _or_none(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)


def drawing(found: Beside) -> Figure:
    """Attainment and throughput over time, real and simulated, and when the engine was away."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    told = ((above, found.attainment, "attained, by time of arrival"), (below, found.throughput, "tokens per second"))
    for axes, windows, label in told:
        middle = (np.arange(len(windows.real)) + 0.5) * windows.window_s
        low, high, drawn = *windows.interval, len(windows.draws)
        axes.fill_between(middle, low, high, alpha=0.3, label=f"simulated, {COVERAGE:.0%} of {drawn} draws")
        axes.plot(middle, windows.draws.mean(axis=0), "--", label="simulated, mean")
        axes.plot(middle, windows.real, "o-", ms=4, label="real")
        for k, at in enumerate(found.run.struck):
            back = min((one.at_s for one in found.run.comebacks if one.at_s > at), default=at)
            axes.axvspan(at, back, color="0.85", zorder=0, label=None if k else "the engine is away")
        axes.set(ylabel=label)
        axes.grid(alpha=0.3)
    above.set(ylim=(-0.02, 1.02))
    above.legend(loc="lower right", fontsize=8)
    below.set(xlabel="time (s)", ylim=(0, None))
    return figure
