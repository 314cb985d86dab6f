"""What the ratios of Figs. 14, 16 and 17 hinge on: each assumption moved alone, both systems measured anew.

A ratio is of the requests that finish while others always wait; that of Fig. 17 is of the rates sustained up to a
limit, which is one of its assumptions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ....errors import InputError
from ...sensitivity import Sensitivity, Swing
from ..decoding_rates import At, Run, capacity, curve
from ..servers import HOST, HostTime
from .serving import needed

__all__ = ["FINISHED", "Moved", "hinge", "hosts", "ratio"]

OVER = "Orca (Oracle)"
FINISHED = f"× {OVER} at capacity"
"""Unit of a `ratio` without a limit."""
RATES = (0.3, 0.6, 0.85, 1.0, 1.15, 1.4, 1.8, 2.5)
"""Of a curve, as multiples of the capacity; 0.3 is for low limits."""


@dataclass(frozen=True, slots=True)
class Moved:
    """An assumption, and the two values that it is moved to.

    Parameters
    ----------
    assumption : str
        What is assumed, with its value.
    low, high : str
        The two values, in words.
    at_low, at_high : callable
        () -> our figure there.
    """

    assumption: str
    low: str
    high: str
    at_low: Callable[[], float]
    at_high: Callable[[], float]


def hinge(title: str, paper: float, ours: float, unit: str, moved: tuple[Moved, ...]) -> Sensitivity:
    """A headline beside what moves it, and which ends reach the paper's figure."""
    swings = tuple(Swing(m.assumption, m.low, m.high, m.at_low(), m.at_high()) for m in moved)
    return Sensitivity(title, paper, ours, unit, swings, needed(paper, ours, swings))


def hosts(figure: Callable[[HostTime], float], sequences: int = 1) -> tuple[Moved, ...]:
    """Host time moved: away or to the iteration; smaller for a sequence.

    Parameters
    ----------
    figure : callable
        Host time -> our figure.
    sequences : int
        Of a request: its host time may be the request's, which the batches it was fitted on cannot tell.
    """
    each = f"host: {1e3 * HOST.sequence_s:.2f} ms a sequence"
    low, part = ("a request", 1 / sequences) if sequences > 1 else ("0.2 ms", 0.2e-3 / HOST.sequence_s)

    def at(host: HostTime) -> Callable[[], float]:
        return lambda: figure(host)

    return (
        Moved(f"host: {1e3 * HOST.iteration_s:.1f} ms, {1e3 * HOST.sequence_s:.2f} ms a sequence", "none", "20 ms, 0",
              at(HostTime(0.0, 0.0)), at(HostTime(0.02, 0.0))),
        Moved(each, low, "0.1 ms",
              at(replace(HOST, sequence_s=part * HOST.sequence_s)), at(replace(HOST, sequence_s=1e-4))),
    )  # fmt: skip


def ratio(run: Callable[[str], Run], at: At, seconds: float, system: str = "vLLM", limit: float | None = None) -> float:
    """What one system does over `OVER`: requests finished while others always wait, or the rate up to a limit.

    Parameters
    ----------
    run : callable
        System -> how it is run.
    at : callable
        Requests per second, seconds -> requests.
    seconds : float
        When a run that finds the capacity ends; of arrivals.
    system : str
        Whose ratio.
    limit : float, optional
        Seconds per token up to which a rate counts as sustained; NaN where a curve does not cross it.
    """
    most = {name: capacity(run(name), at, seconds) for name in (system, OVER)}
    if limit is not None:
        try:
            most = {n: curve(run(n), at, m, seconds, RATES).sustained(limit) for n, m in most.items()}
        except InputError:
            return float("nan")
    return most[system] / most[OVER]
