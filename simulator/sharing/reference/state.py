"""What the SimPy model of a shared cluster keeps of an app and its jobs."""

from __future__ import annotations

import math

import simpy

from ..policy.learning import Beliefs, SlowdownLearner

__all__ = ["RunApp", "RunJob"]


class RunJob:
    """A job of the present phase. Work is done from `resumes` on at `rate`."""

    def __init__(self, number: int, left_s: float, cap: int, gang: int) -> None:
        self.number, self.left_s, self.cap, self.gang = number, left_s, cap, gang
        self.gpus: tuple[int, ...] = ()
        self.rate, self.resumes = 0.0, 0.0
        self.since = 0.0  # when it was given these GPUs
        self.begun = math.inf  # when it first was given GPUs
        self.timed = 0  # iterations on these GPUs that its agent has timed
        self.process: simpy.Process | None = None

    def left(self, now: float) -> float:
        """GPU seconds that are left at an instant."""
        return self.left_s if now <= self.resumes else max(self.left_s - (now - self.resumes) * self.rate, 0.0)


class RunApp:
    """An app in the cluster."""

    def __init__(self, index: int, integral: float, beliefs: Beliefs) -> None:
        self.index, self.integral = index, integral  # of the number of apps, up to its arrival
        self.learner = SlowdownLearner(beliefs)
        self.phase = -1
        self.jobs: dict[int, RunJob] = {}
        self.gpus: set[int] = set()
        self.attained_s, self.since = 0.0, 0.0
        self.started = math.nan
        self.placed = [0, 0, 0, 0]  # allocations of its jobs, by how far apart their GPUs are
