"""A run that was killed, beside what the simulation said of it: rows of figures, and a drawing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ....simulator.plots import panels
from .forecast import Forecast
from .result import RecoveredRun

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

__all__ = ["drawing", "rows", "simulated_work"]


def rows(run: RecoveredRun, told: Forecast) -> list[dict[str, float | str]]:
    """What happened, in the order of time: when, really and simulated, and seconds that were lost with it."""
    found: list[dict[str, float | str]] = []
    simulated = {float(row[0]): row for row in told.record.rows}
    for at, rank in run.struck:
        when = at - run.begun_s
        near = min(simulated, key=lambda s, when=when: abs(s - when), default=None)
        found.append(
            {
                "what": f"rank {rank} killed", "real_s": when, "simulated_s": float("nan") if near is None else near,
                "lost_s": _lost(run, at), "simulated_lost_s": float("nan") if near is None else simulated[near][3],
            }
        )  # fmt: skip
    nothing = float("nan")
    found.append(
        {
            "what": "all is done", "real_s": run.wall_s, "simulated_s": told.record.wall_s, "lost_s": nothing,
            "simulated_lost_s": nothing,
        }
    )  # fmt: skip
    return found


def _lost(run: RecoveredRun, at: float) -> float:
    """Seconds of computing that a kill at a time of the machine's clock undid: since the last checkpoint or start."""
    before = [e.at_s for e in run.events if e.what in ("begins", "checkpoint") and e.at_s <= at]
    kills = [k for k, _ in run.struck if k < at]
    if not before or (kills and before[-1] < kills[-1]):  # while it started again: nothing was computed
        return 0.0
    return at - before[-1]


def simulated_work(run: RecoveredRun, told: Forecast, seconds: Sequence[float]) -> list[float]:
    """Iterations that the simulation has done by some times: saved ones, and what it computed since."""
    costs, every = told.costs, run.every
    usual, saving = float(costs.iteration_s.mean()), float(costs.checkpoint_s.mean())
    restart = float(costs.restart_s.mean()) if len(costs.restart_s) else 0.0
    begins, base = [float(costs.start_s.mean()) if len(costs.start_s) else 0.0], [0.0]
    for row in told.record.rows:
        begins.append(float(row[0]) + restart)
        base.append(float(row[4]) / usual)
    fails = [*map(float, told.record.rows[:, 0]), told.record.wall_s]
    found: list[float] = []
    for s in seconds:
        k = min(int(np.searchsorted(fails, s, side="right")), len(begins) - 1)
        over = max(0.0, min(s, fails[k]) - begins[k])
        blocks, rest = divmod(over, every * usual + saving)
        found.append(min(float(run.iterations), base[k] + blocks * every + min(rest / usual, every)))
    return found


def drawing(run: RecoveredRun, told: Forecast) -> Drawing:
    """Iterations done over time, real and simulated, with the kills and the interval of the end."""
    with panels(3.0, columns=1, title=repr(run)) as (figure, (axis,)):
        at = [e.at_s - run.begun_s for e in run.events]
        axis.step(at, [e.done for e in run.events], where="post", label="real")
        grid = np.linspace(0.0, max(run.wall_s, told.record.wall_s), 2000)
        axis.plot(grid, simulated_work(run, told, list(grid)), linewidth=0.9, label="simulated")
        low, high = told.interval()
        axis.axvspan(low, high, alpha=0.15, label="its end, 95 %")
        for when, _ in run.struck:
            axis.axvline(when - run.begun_s, linestyle=":", linewidth=0.8, color="black")
        axis.set(xlabel="seconds since the first iteration", ylabel="iterations done", ylim=(0, None))
        axis.legend(loc="upper left", fontsize=7)
    return figure
