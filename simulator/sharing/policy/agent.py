"""An app's agent: it estimates finish time and finish-time fairness ρ for GPUs that the app has or might get.

Themis §4.3, Equations 1 and 2: ρ(G) = T_sh(G)/T_id, with G taken as held until the app is done.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median_high
from typing import Literal

import numpy as np

from ....errors import InputError
from ....reprs import Shown
from ..cluster import Level, SharedCluster
from ..workload.app import App, Slowdown
from .split import RunningJob

__all__ = ["AppView", "Convention", "Shape", "usual_iteration_s"]

Convention = Literal["fluid", "slowest"]
"""How a phase's time is estimated. ``fluid``: its work divided over all GPUs that its jobs can use, as Table 3 does;
``slowest``: when its last job ends, as Equation 2 says. See `usual_iteration_s` too."""


@dataclass(frozen=True, slots=True, repr=False)
class Shape(Shown):
    """How a set of GPUs is spread over machines and racks; estimates depend on it.

    Slots are not told apart: inside a slot, agents assume the slowdown of a machine, where the truth may be less.

    Parameters
    ----------
    machines : tuple of int
        GPUs on each machine that has any, largest first.
    racks : int
        Number of racks that they are in.
    """

    machines: tuple[int, ...]
    racks: int = 1

    @classmethod
    def of(cls, cluster: SharedCluster, gpus: Iterable[int]) -> Shape:
        """The shape of a set of GPUs of a cluster."""
        ids = list(gpus)
        counts = Counter(cluster.machine_of[ids].tolist())
        return cls(tuple(sorted(counts.values(), reverse=True)), len(set(cluster.rack_of[ids].tolist())))

    @classmethod
    def grouped(cls, n: int, group: int, racks: int = 1) -> Shape:
        """`n` GPUs of which `group` at a time are on a machine."""
        whole, rest = divmod(n, group)
        return cls((group,) * whole + ((rest,) if rest else ()), racks)

    @property
    def gpus(self) -> int:
        """Number of GPUs."""
        return sum(self.machines)

    def level(self, each: int, jobs: int) -> Level:
        """The widest link inside any of `jobs` jobs that take `each` GPUs: whether machines hold them whole."""
        if each <= 1:
            return Level.SLOT
        if sum(m // each for m in self.machines) >= jobs:
            return Level.MACHINE
        return Level.RACK if self.racks <= 1 else Level.CLUSTER


@dataclass(frozen=True, repr=False)
class AppView(Shown):
    """An app at one instant, as policies see it.

    Parameters
    ----------
    index : int
        Number of the app.
    app : App
        The app.
    now_s : float
        The time, seconds, by the clock of the simulator or the arbiter that makes the view.
    phase : int
        The phase that the app is in.
    jobs : tuple of RunningJob
        Its jobs that are not done.
    held : tuple of int
        GPUs that it keeps: they are not on offer.
    lapsed : tuple of int
        GPUs that it has but whose lease is over: they are on offer.
    attained_s : float
        GPU seconds that it has had so far.
    contention : float
        N_avg: mean number of apps in the cluster since it arrived; at its arrival, the present number.
    cluster_gpus : int
        R_C: GPUs of the cluster.
    convention : {"fluid", "slowest"}
        How phases are estimated, see `Convention`.
    believed : Slowdown, optional
        What its agent believes that distance costs; by default what the app says (`App.estimated_slowdown`).
    """

    index: int
    app: App
    now_s: float
    phase: int
    jobs: tuple[RunningJob, ...]
    held: tuple[int, ...]
    lapsed: tuple[int, ...]
    attained_s: float
    contention: float
    cluster_gpus: int
    convention: Convention = "fluid"
    believed: Slowdown | None = None

    @property
    def slowdown(self) -> Slowdown:
        """The slowdown with which its agent estimates."""
        return self.app.estimated_slowdown if self.believed is None else self.believed

    @property
    def wanted(self) -> int:
        """GPUs that the app could use in addition to those that it keeps."""
        return max(0, sum(j.cap for j in self.jobs) - len(self.held))

    @property
    def gang(self) -> int:
        """The smallest number of GPUs with which any of its jobs runs."""
        return min(j.gang for j in self.jobs)

    def usable(self, n: int) -> int:
        """How many of `n` GPUs, those that it keeps among them, its jobs can use: gangs start or do not (`split`)."""
        if all(j.gang == 1 for j in self.jobs):
            return min(n, sum(j.cap for j in self.jobs))
        spare, room = n, 0
        for j in sorted(self.jobs, key=lambda j: (not j.gpus, -j.left_s)):
            if j.gang <= spare:
                spare -= j.gang
                room += j.cap - j.gang
        return n - max(0, spare - room)

    @cached_property
    def ideal_s(self) -> float:
        """T_id as the agent believes: alone on 1/N_avg of the cluster, no slowdown."""
        work = self.app.believed_work * self.app.total_work_s
        return self.contention * work / min(self.cluster_gpus, self.app.max_gpus)

    @cached_property
    def left_s(self) -> float:
        """GPU seconds that it believes are left, all phases."""
        return self.app.believed_work * sum(self._phase_works())

    def rho(self, shape: Shape) -> float:
        """ρ if it had GPUs of this shape until it is done; infinite where it could not run."""
        return (self.now_s - self.app.arrival_s + self.remaining_s(shape)) / self.ideal_s

    def remaining_s(self, shape: Shape) -> float:
        """Seconds until it is done with GPUs of this shape (Equations 1 and 2)."""
        n = shape.gpus
        if n < self.gang:
            return math.inf
        total = 0.0
        for k, work in enumerate(self._phase_works()):
            caps = self._phase_caps(k)
            jobs = len(caps)
            running = min(jobs, max(n // self.gang, 1))
            each = min(max(caps), max(n // running, 1))
            slowdown = self.slowdown.levels[shape.level(each, running)]
            if self.convention == "fluid":
                seconds = work / min(n, sum(caps))
            elif k == 0:
                seconds = _last_job(self._job_works(), caps, n, self.gang)
            else:
                seconds = _last_job([work / jobs] * jobs, caps, n, self.gang)
            total += seconds * slowdown
        return self.app.believed_work * total

    def speed(self, shape: Shape) -> float:
        """GPU seconds of work that the present phase does per second with GPUs of this shape."""
        n = shape.gpus
        if n < self.gang:
            return 0.0
        caps = self._phase_caps(0)
        running = min(len(caps), max(n // self.gang, 1))
        each = min(max(caps), max(n // running, 1))
        return min(n, sum(caps)) / self.slowdown.levels[shape.level(each, running)]

    def job_work_s(self, job: int) -> float:
        """GPU seconds of a job's whole share of the present phase."""
        phase = self.app.phases[self.phase]
        return phase.iterations[phase.jobs.index(job)] * self.app.jobs[job].iteration_s

    def _job_works(self) -> list[float]:
        """GPU seconds that are left of each job, before the agent's error."""
        if self.app.kind != "curve":
            return [j.left_s for j in self.jobs]
        # The most optimistic curve overstates; what it overstates by shrinks with the work that is left.
        return [
            j.left_s * (1.0 + (self.app.jobs[j.job].optimism - 1.0) * j.left_s / self.job_work_s(j.job))
            for j in self.jobs
        ]

    def _phase_works(self) -> list[float]:
        """GPU seconds of the present phase and of those to come, before the agent's error."""
        app = self.app
        works = [sum(self._job_works())]
        for p in app.phases[self.phase + 1 :]:
            works.append(sum(p.iterations) * usual_iteration_s(app, self.phase, self.convention))
        return works

    def _phase_caps(self, ahead: int) -> list[int]:
        """GPUs that each job can use, `ahead` phases from now. Nobody knows yet who will be left: as many as the phase
        lets a job use, or as the median job of the present one can."""
        if ahead == 0:
            return [j.cap for j in self.jobs]
        p = self.app.phases[self.phase + ahead]
        known = sorted(self.app.jobs[j].gpus for j in self.app.phases[self.phase].jobs)
        return [p.gpus or known[(len(known) - 1) // 2]] * len(p.jobs)  # the lower median: promise no more than there is


def usual_iteration_s(app: App, phase: int, convention: Convention) -> float:
    """Seconds of the median job of a phase, which stands for those of the phases to come: who goes on is not known.
    By the letter the slower of two, as the example's revised T_sh(3) = 120 · 36/2 has it (§4.3.3)."""
    seconds = [app.jobs[j].iteration_s for j in app.phases[phase].jobs]
    return float(median_high(seconds) if convention == "slowest" else np.median(seconds))


def _last_job(works: Sequence[float], caps: Sequence[int], n: int, gang: int) -> float:
    """When the last of some jobs is done on `n` GPUs, divided as `split` does: each starts with a gang, the longest
    first, what remains goes one by one to the job with the fewest; who waits has the GPUs of whoever is done first."""
    order = sorted(range(len(works)), key=lambda k: -works[k])
    running = min(len(order), n // gang)
    if running < 1:
        raise InputError(f"agent: expected GPUs for a gang of {gang} (got {n})")
    first, spare, level = order[:running], n - running * gang, gang
    able = [k for k in first if caps[k] > level]
    while able and spare >= len(able):
        spare -= len(able)
        level += 1
        able = [k for k in able if caps[k] > level]
    more = set(able[:spare])
    counts = [min(level, caps[k]) + (k in more) for k in first]
    ends = [(works[k] / count, count) for k, count in zip(first, counts, strict=True)]
    heapq.heapify(ends)
    for k in order[running:]:
        at, count = ends[0]
        heapq.heapreplace(ends, (at + works[k] / min(count, caps[k]), count))
    return max(ends)[0]
