"""`Meter`: makes a slot out of a share of a core: a right to so many training steps per second, and no more."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Meter"]


@dataclass(slots=True)
class Meter:
    """Counts the steps that a job's slots entitle it to. A step is run once it is wholly covered.

    Parameters
    ----------
    total : float
        Steps of the job in this phase; the last may be a part of one.
    credit : float
        Steps covered when the meter last changed.
    rate : float
        Steps per second, from `since` on.
    since : float
        Seconds of the machine's monotonic clock.
    """

    total: float
    credit: float = 0.0
    rate: float = 0.0
    since: float = 0.0

    @property
    def steps(self) -> int:
        """Steps that are really run."""
        return math.ceil(self.total - 1e-9)  # a total that is whole but for rounding has no step more

    def at(self, now: float) -> float:
        """Steps to which the job is entitled by time `now`; may be fractional."""
        return min(self.total, self.credit + self.rate * max(0.0, now - self.since))

    def due(self, done: int) -> float:
        """Time at which the job is entitled to the step after `done` steps; infinite if it stands still or is done."""
        if self.rate <= 0 or done >= self.steps:
            return math.inf
        return self.since + max(0.0, min(done + 1.0, self.total) - self.credit) / self.rate

    def stop(self, now: float, done: int) -> None:
        """Stand still. Steps that the job was entitled to but did not run, as the machine was late, are forfeited."""
        self.credit, self.rate = min(self.at(now), done + 1.0), 0.0

    def start(self, since: float, rate: float) -> None:
        """Go on at `rate` from an instant on."""
        self.since, self.rate = since, rate
