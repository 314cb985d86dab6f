"""What the SimPy model of a shared cluster keeps of an app and its jobs."""

from __future__ import annotations

import math

import simpy

from ..policy.learning import Beliefs, SlowdownLearner
from ..varying import Speeds

__all__ = ["RunApp", "RunJob"]


class RunJob:
    """A job of the present phase. Work is done from `resumes` on at `rate`; where GPUs vary, at `pace` in each window.

    `left_s` is what was left at `mark`: at `resumes`, or when the present window began.
    """

    def __init__(self, number: int, left_s: float, cap: int, gang: int) -> None:
        self.number, self.left_s, self.cap, self.gang = number, left_s, cap, gang
        self.gpus: tuple[int, ...] = ()
        self.rate, self.resumes = 0.0, 0.0
        self.pace, self.mark = 0.0, 0.0
        self.window, self.until = 0, math.inf  # the present window, and when it is over
        self.since = 0.0  # when it was given these GPUs
        self.begun = math.inf  # when it first was given GPUs
        self.timed = 0  # iterations on these GPUs that its agent has timed
        self.whole_s, self.timed_at, self.timed_left_s = 0.0, 0.0, 0.0  # left at `resumes`; when last timed, left then
        self.process: simpy.Process | None = None

    def left(self, now: float) -> float:
        """GPU seconds that are left at an instant."""
        return self.left_s if now <= self.mark else max(self.left_s - (now - self.mark) * self.pace, 0.0)

    def set_off(self, resumes: float, rate: float, speeds: Speeds | None) -> float:
        """Go on at `rate`, from `resumes` on; returns when it will be done."""
        self.resumes = self.mark = self.timed_at = resumes
        self.rate = self.pace = rate
        self.whole_s = self.timed_left_s = self.left_s
        if speeds is None:
            return resumes + self.left_s / rate
        self.window = speeds.window(resumes)
        self.until, self.pace = speeds.end(self.window), rate / speeds.factor(self.gpus, self.window)
        return speeds.finish(self.left_s, resumes, rate, self.gpus)

    def catch_up(self, now: float, speeds: Speeds) -> None:
        """Be in the window of an instant."""
        while self.gpus and self.until <= now:
            self.left_s -= (self.until - self.mark) * self.pace
            self.mark, self.window = self.until, self.window + 1
            self.until, self.pace = speeds.end(self.window), self.rate / speeds.factor(self.gpus, self.window)


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
