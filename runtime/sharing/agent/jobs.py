"""`AgentJobs`: the jobs of an app on their slots: it trains them step by step, saves and resumes them, and divides the
app's GPUs over them, phase by phase."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from ....simulator.sharing.policy.learning import SlowdownLearner, trimmed
from ....simulator.sharing.policy.split import RunningJob, rate, split
from ....simulator.sharing.workload.app import Slowdown
from ....simulator.sharing.world import SharingWorld
from ..messages import JobState, Pause, Profiled, State
from ..options import RunOptions, phase_steps
from .meter import Meter
from .training import Trainer

__all__ = ["AgentJobs"]

TOGETHER_S = 0.001
"""Jobs of one app that end so near to each other, in real seconds, end at one instant, as equal jobs do in simulation.
A guess: a few training steps long."""

BATCH = 10
"""Iterations that are timed before the learner is told of them, so that a mean of them can leave out the greatest and
the least. A guess; it keeps a moment's lateness, which one iteration pays and the next has back, in one batch."""


class _Job:
    """A job of the present phase."""

    def __init__(self, number: int, meter: Meter, cap: int, gang: int) -> None:
        self.number, self.meter, self.cap, self.gang = number, meter, cap, gang
        self.gpus: tuple[int, ...] = ()
        self.ran = False
        self.done = 0  # steps of this phase
        self.save_s = 0.0
        self.trainer: Trainer | None = None
        self.finished: float | None = None  # seconds of the machine's clock
        self.stepped: float | None = None  # when its last step on these GPUs ended
        self.times: list[float] = []  # seconds of iterations on these GPUs that the learner does not know of


class AgentJobs:
    """The jobs of one app, in real time.

    Parameters
    ----------
    world : SharingWorld
        The world; slowdowns and what a change of GPUs costs are taken from it.
    index : int
        Number of the app.
    options : RunOptions
        What a slot is and how fast time passes.
    folder : Path
        Where checkpoints go.
    """

    def __init__(self, world: SharingWorld, index: int, options: RunOptions, folder: Path) -> None:
        self.world, self.index, self.options, self.folder = world, index, options, folder
        self.app = world.apps[index]
        self.epoch = 0.0
        self.phase = -1
        self.jobs: dict[int, _Job] = {}
        self.gpus: tuple[int, ...] = ()
        self.over_at: float | None = None
        self.pauses: list[Pause] = []
        self.behind_s, self.steps = 0.0, 0
        self.learner = SlowdownLearner(world.beliefs)
        self._next_phase()

    # ---- time

    def world_s(self, clock: float) -> float:
        """The world's seconds at an instant of the machine's clock."""
        return max(0.0, (clock - self.epoch) * self.options.time_scale)

    def clock(self, world_s: float) -> float:
        """Time on the machine's clock for a time in the world's seconds."""
        return self.epoch + world_s / self.options.time_scale

    # ---- training

    def next_due(self) -> float:
        """Time on the machine's clock at which something is next to be done: a step, or handling ended jobs."""
        step = min((self._due(j) for j in self.jobs.values()), default=math.inf)
        ended = (j.finished for j in self.jobs.values() if j.finished is not None)
        return min((step, *(at + TOGETHER_S for at in ended)))

    def run_due(self) -> bool:
        """Run one step to which a job is entitled by now, if there is one; returns whether the job ended with it."""
        if not self.jobs:
            return False  # all is done, as of what the arbiter has just been told
        job = min(self.jobs.values(), key=self._due)
        due = self._due(job)
        now = time.monotonic()
        if due > now or job.trainer is None:
            return False
        self.behind_s = max(self.behind_s, now - due)
        job.trainer.step()
        job.done += 1
        self.steps += 1
        self._time(job, time.monotonic())
        if job.done >= job.meter.steps:
            job.finished = time.monotonic()
            return True
        return False

    def _time(self, job: _Job, now: float) -> None:
        """Note down how long an iteration took: from the end of the one before it, on the same GPUs."""
        if job.stepped is not None and job.done <= job.meter.total:  # the last of a phase may be a part of one
            job.times.append(now - job.stepped)
        job.stepped = now

    def _learn(self, job: _Job) -> None:
        """Tell the learner of the job's iterations, as slowdowns: an iteration on one slot takes 1/`slot_steps`."""
        if len(job.times) < BATCH:
            return
        serial = min(len(job.gpus), job.cap) * self.options.slot_steps
        mean, deviation = trimmed([t * serial for t in job.times])
        self.learner.observe(self.world.cluster.level(job.gpus), mean, len(job.times), deviation)
        job.times = []

    @property
    def slowdown(self) -> Slowdown:
        """What the agent knows or believes that distance costs."""
        beliefs = self.world.beliefs
        if beliefs.slowdown == "known":
            return self.app.slowdown
        return self.learner.slowdown if beliefs.slowdown == "learned" else beliefs.start

    def _profiled(self) -> tuple[Profiled, ...]:
        found = ((level, self.learner.learned(level)) for level in range(4))
        return tuple(
            Profiled(level=level, iterations=x.iterations, mean=x.mean, half_width=x.half_width, believed=x.believed)
            for level, x in found
            if x.iterations
        )

    @staticmethod
    def _end(job: _Job) -> float:
        """Time at which a job will end with the slots that it has."""
        return job.meter.due(job.meter.steps - 1) if job.trainer is not None else math.inf

    @staticmethod
    def _due(job: _Job) -> float:
        return job.meter.due(job.done) if job.trainer is not None else math.inf

    # ---- what the app does with its GPUs

    def release(self, gpus: Collection[int], at_s: float) -> None:
        """Stop jobs that use any of `gpus`, as of time `at_s`, and write their checkpoints."""
        for job in self.jobs.values():
            if not set(job.gpus).isdisjoint(gpus):
                self._stop(job, at_s)

    def divide(self, gpus: Sequence[int], at_s: float) -> None:
        """Divide the app's GPUs over its jobs as of time `at_s`; `self.gpus` becomes those that they use."""
        ended = [self.world_s(j.finished) for j in self.jobs.values() if j.finished is not None]
        self._retire()
        self._divide(gpus, max((at_s, *ended)))

    def settle(self) -> bool:
        """Handle jobs that have ended: others take their GPUs, or the next phase begins. Returns whether any had.

        Jobs that end within `TOGETHER_S` of the first are handled together.
        """
        ended = [j.finished for j in self.jobs.values() if j.finished is not None]
        if not ended:
            return False
        until = min(ended) + TOGETHER_S
        if time.monotonic() < until and any(j.finished is None and self._end(j) < until for j in self.jobs.values()):
            return False
        self._retire()
        self._divide(self.gpus, self.world_s(max(ended)))
        return True

    def state(self, at_s: float) -> State:
        """The report to the arbiter, as of time `at_s`."""
        for job in self.jobs.values():
            self._learn(job)
        slowdown, profiled = self.learner.slowdown.levels, self._profiled()
        if self.over_at is not None:
            return State(
                at_s=self.world_s(self.over_at), phase=self.phase, over=True, pauses=tuple(self.pauses),
                behind_s=self.behind_s, steps=self.steps, slowdown=slowdown, profiled=profiled,
            )  # fmt: skip
        jobs = [j for j in self._running(at_s) if self.jobs[j.job].finished is None]
        told = tuple(JobState(job=j.job, left_s=j.left_s, gpus=j.gpus) for j in jobs)
        return State(at_s=at_s, phase=self.phase, jobs=told, slowdown=slowdown, profiled=profiled)

    def _retire(self) -> None:
        """Put finished jobs away; with the last of a phase the next begins, or the app is over."""
        ended = [j for j in self.jobs.values() if j.finished is not None]
        for job in ended:
            self._stop(job, self.world_s(job.finished or 0.0))
            del self.jobs[job.number]
        if ended and not self.jobs:
            if self.phase + 1 == len(self.app.phases):
                self.over_at = max(j.finished or 0.0 for j in ended)
                self.gpus = ()
            else:
                self._next_phase()

    def _next_phase(self) -> None:
        self.phase += 1
        for number in self.app.phases[self.phase].jobs:
            meter = Meter(phase_steps(self.app, self.phase, number, self.options))
            self.jobs[number] = _Job(number, meter, self.app.cap(self.phase, number), self.app.jobs[number].gang)

    def _running(self, at_s: float) -> list[RunningJob]:
        clock, per_s = self.clock(at_s), self.options.slot_steps / self.options.time_scale
        return [
            RunningJob(j.number, max(j.meter.total - j.meter.at(clock), 0.0) / per_s, j.cap, j.gang, j.gpus)
            for _, j in sorted(self.jobs.items())
        ]

    def _divide(self, gpus: Sequence[int], at_s: float) -> None:
        world = self.world
        restart_s = world.checkpoint_s + world.container_s
        shares = split(world.cluster, sorted(gpus), self._running(at_s), self.slowdown, restart_s)
        changed = [(self.jobs[n], mine) for n, mine in shares.items() if mine != self.jobs[n].gpus]
        held_back = [(j, j.gpus) for j in self.jobs.values() if j.trainer is None and shares[j.number] == j.gpus]
        for job, _ in changed:
            self._stop(job, at_s)
        for job, mine in (*changed, *held_back):
            job.gpus = mine
            if mine:
                self._start(job, at_s)
        self.gpus = tuple(sorted(g for mine in shares.values() for g in mine))

    # ---- one job

    def _path(self, job: _Job) -> Path:
        return self.folder / f"app-{self.index}-job-{job.number}.npz"

    def _stop(self, job: _Job, at_s: float) -> None:
        """Off its slots, weights on disk. Work after `at_s` is not its own."""
        if job.trainer is None:
            return
        job.meter.stop(self.clock(at_s), job.done)
        self._learn(job)
        job.times, job.stepped = [], None
        begun = time.monotonic()
        job.trainer.save(self._path(job))
        job.save_s = time.monotonic() - begun
        job.trainer = None

    def _start(self, job: _Job, at_s: float) -> None:
        """Build the job anew and go on from its checkpoint, not before the world's container has started."""
        world, begun = self.world, time.monotonic()
        job.trainer = Trainer(self.options.seed, self.index, job.number)
        if self._path(job).exists():
            job.trainer.load(self._path(job))
        ready = time.monotonic()
        told_s = world.container_s + (world.checkpoint_s if job.ran else 0.0)
        since = max(self.clock(at_s + told_s), ready)
        self.pauses.append(
            Pause(resumed=job.ran, pause_s=since - self.clock(at_s), save_s=job.save_s, load_s=ready - begun)
        )
        mine = rate(world.cluster, self.app.slowdown, job.gpus, job.cap, job.gang)
        job.meter.start(since, mine * self.options.slot_steps)
        job.ran = True
