"""`GoodputResult`: what became of training runs on machines that fail."""

from __future__ import annotations

# pandas brings no type stubs.
# pyright: reportMissingTypeStubs=false
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ....errors import InputError
from ....reprs import Shown
from ...metrics import Estimate, mean_interval
from ...plots import panels
from ...summary import Figure, Summary
from .checkpoints import Checkpoints
from .closed_form import expected
from .machines import Machines
from .record import COLUMNS, PHASES, Record

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Drawing

__all__ = ["PARTS", "GoodputResult"]

PARTS = ("work", "slower", "checkpoint", "lost", "restart", "waiting")
"""Where time goes; `Record` says what each is."""

Column = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, eq=False, repr=False)
class GoodputResult(Shown):
    """Training runs on machines that fail.

    Parameters
    ----------
    work_s : float
        Work of each run: seconds of computing without failures.
    machines, checkpoints : Machines, Checkpoints
        What was simulated.
    records : tuple of Record
        The runs.
    """

    work_s: float
    machines: Machines
    checkpoints: Checkpoints
    records: tuple[Record, ...]

    @property
    def wall_s(self) -> Column:
        """Seconds that each run took, or until it was given up."""
        return np.array([r.wall_s for r in self.records])

    @property
    def finished(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Whether each run came to its end."""
        return np.array([r.finished for r in self.records])

    @property
    def goodput(self) -> Column:
        """Of each run, the share of its time that was work."""
        return np.array([r.work_s / r.wall_s for r in self.records])

    def interval(self, confidence: float = 0.95) -> Estimate:
        """Mean goodput, with its confidence interval over runs."""
        return mean_interval(self.goodput, confidence)

    def run_interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Ends of what `confidence` of the runs took, seconds: quantiles of `wall_s`."""
        low, high = np.quantile(self.wall_s, [(1 - confidence) / 2, (1 + confidence) / 2])
        return float(low), float(high)

    @property
    def shares(self) -> dict[str, float]:
        """Share of the time of all runs by `PARTS`; they add up to 1."""
        total = float(self.wall_s.sum())
        return {part: sum(getattr(r, f"{part}_s") for r in self.records) / total for part in PARTS}

    @property
    def failures(self) -> Column:
        """Number of failures of each run."""
        return np.array([float((r.rows[:, 1] >= 0).sum()) for r in self.records])

    def expected_goodput(self) -> float:
        """The closed form's goodput; NaN where there is none."""
        try:
            return expected(self.work_s, self.machines, self.checkpoints).goodput
        except InputError:
            return float("nan")

    def summary(self) -> Summary:
        """The figures that one looks at first, each with its unit."""
        mean, (low, high) = self.interval(), self.run_interval()
        return Summary(
            repr(self),
            [
                Figure("goodput", mean.mean, "", f"share of the time that was work, {mean.low:.4f} to {mean.high:.4f}"),
                Figure("expected_goodput", self.expected_goodput(), "", "in closed form"),
                Figure("wall_s", float(self.wall_s.mean()), "s", f"of a run; 95 % of runs: {low:.6g} to {high:.6g}"),
                Figure("failures", float(self.failures.mean()), "", "of a run"),
                *(Figure(f"{part}_share", share, "", "of the time") for part, share in self.shares.items()),
            ],
        )  # fmt: skip

    def to_frame(self) -> pd.DataFrame:
        """One row per failure: run, at_s, node (−1: the run grew), phase, lost_s, saved_s, replicas before it."""
        import pandas as pd

        rows = np.concatenate([np.column_stack([np.full(len(r.rows), k), r.rows]) for k, r in enumerate(self.records)])
        frame = pd.DataFrame(rows, columns=["run", *COLUMNS])
        frame["phase"] = [PHASES[int(k)] for k in frame["phase"]]
        return frame.astype({"run": int, "node": int, "replicas": int})

    def plot(self) -> Drawing:
        """Work that is saved over time, of every run, and where the time went."""
        with panels(2.8, columns=2, title=repr(self)) as (figure, (left, right)):
            for record in self.records[:20]:
                at, saved = [0.0, *record.rows[:, 0], record.wall_s], [0.0, *record.rows[:, 4], record.work_s]
                left.plot(np.array(at) / 86_400, np.array(saved) / 86_400, linewidth=0.7)
            left.set(xlabel="days", ylabel="days of work saved")
            shares = self.shares
            right.barh(list(shares), list(shares.values()))
            right.set(xlabel="share of the time")
        return figure

    def _headline(self) -> str:
        mean = self.interval()
        given_up = int((~self.finished).sum())
        more = f", {given_up} given up" if given_up else ""
        return f"{len(self.records)} runs on {self.machines.nodes} nodes: goodput {mean}{more}"

    def shown_rows(self) -> Iterable[tuple[str, object]]:
        return self.summary().shown_rows()
