"""The SimPy model of a shared cluster: readable, every event visible.

At one instant: jobs that are done, then failures and repairs, then arrivals, then leases that are over; then each app
whose GPUs or jobs changed divides its GPUs anew, the policy is asked once if any GPU is on offer, and the winners
divide theirs.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

import simpy

from ...clock import Clock
from ..policy.agent import AppView
from ..policy.contract import Policy, check_answer
from ..policy.learning import noisy
from ..policy.split import RunningJob, rate, split
from ..result.columns import AppRecord, Grant, SharingResult, Spell
from ..workload.app import Slowdown
from ..world import SharingWorld
from .state import RunApp, RunJob

__all__ = ["simulate_reference"]

LAST = 2
"""SimPy priority of settling an instant: after everything else that happens in it, so that the policy is asked once and
sees all of it."""


class _Simulation:
    def __init__(self, world: SharingWorld, policy: Policy) -> None:
        self.world, self.policy, self.cluster = world, policy, world.cluster
        self.env = Clock()
        self.active: dict[int, RunApp] = {}
        self.owner = [-1] * self.cluster.n_gpus
        self.lapsed: set[int] = set()
        self.down: set[int] = set()  # GPUs of machines that are gone
        self.grant_number = [0] * self.cluster.n_gpus
        self.ready = [0.0] * self.cluster.n_gpus  # when its owner's container is up
        self.done: list[tuple[int, int]] = []
        self.failed: list[int] = []
        self.arrived: list[int] = []
        self.machines: list[tuple[int, bool]] = []
        self.waking = False
        self.integral, self.counted_at = 0.0, 0.0
        self.records: dict[int, AppRecord] = {}
        self.granted: list[Grant] = []
        self.spells: list[Spell] = []

    # ---- what happens by itself

    def arrivals(self) -> Generator[Any, Any, None]:
        for index, app in enumerate(self.world.apps):
            yield self.env.until(app.arrival_s)
            self.arrived.append(index)
            self.wake()

    def outage(self, machine: int, start_s: float, end_s: float) -> Generator[Any, Any, None]:
        yield self.env.until(start_s)
        self.machines.append((machine, False))
        self.wake()
        yield self.env.until(end_s)
        self.machines.append((machine, True))
        self.wake()

    def app_failure(self, app: int, at_s: float) -> Generator[Any, Any, None]:
        yield self.env.until(at_s)
        self.failed.append(app)
        self.wake()

    def job(self, app: RunApp, job: RunJob, end_s: float) -> Generator[Any, Any, None]:
        try:
            yield self.env.until(end_s)
            self.done.append((app.index, job.number))
            self.wake()
        except simpy.Interrupt:
            pass  # its GPUs changed

    def lease(self, gpus: tuple[int, ...], number: int) -> Generator[Any, Any, None]:
        yield self.env.until(self.world.lease_end_s(self.env.now))
        over = {g for g in gpus if self.grant_number[g] == number and self.owner[g] >= 0}
        if over:
            self.lapsed |= over
            self.wake()

    def wake(self) -> None:
        """Settle this instant once everything in it has happened."""
        if not self.waking:
            self.waking = True
            self.env.call(self.settle, self.env.now, LAST)

    # ---- an instant

    def settle(self) -> None:
        self.waking = False
        now = self.env.now
        self.count(now)
        if self.world.speeds is not None:
            for app in self.active.values():
                for job in app.jobs.values():
                    job.catch_up(now, self.world.speeds)
        changed: set[int] = set()
        for index, number in sorted(self.done):  # sorted: SimPy's order of equal times is that of scheduling
            if index in self.active and number in self.active[index].jobs:
                self.finish_job(self.active[index], number, now)
                changed.add(index)
        for machine, up in self.machines:
            changed |= self.switch(machine, up, now)
        for index in sorted(self.failed):
            if index in self.active:
                self.leave(self.active[index], now, completed=False)
        for index in self.arrived:
            self.active[index] = app = RunApp(index, self.integral, self.world.beliefs)
            app.since = now
            self.next_phase(app)
        self.done, self.machines, self.failed, self.arrived = [], [], [], []
        for index in sorted(changed & self.active.keys()):
            self.divide(self.active[index], now)
        self.decide(now)

    def count(self, now: float) -> None:
        self.integral += len(self.active) * (now - self.counted_at)
        self.counted_at = now

    def finish_job(self, app: RunApp, number: int, now: float) -> None:
        self.measure(app, now)
        self.close(app, app.jobs.pop(number), now)
        if app.jobs:
            return
        if app.phase + 1 == len(self.world.apps[app.index].phases):
            self.leave(app, now, completed=True)
        else:
            self.next_phase(app)

    def next_phase(self, app: RunApp) -> None:
        app.phase += 1
        spec = self.world.apps[app.index]
        phase = spec.phases[app.phase]
        for number, iterations in zip(phase.jobs, phase.iterations, strict=True):
            work = iterations * spec.jobs[number].iteration_s
            app.jobs[number] = RunJob(number, work, spec.cap(app.phase, number), spec.jobs[number].gang)

    def switch(self, machine: int, up: bool, now: float) -> set[int]:
        gpus = [g for g in range(self.cluster.n_gpus) if self.cluster.machine_of[g] == machine]
        if up:
            self.down.difference_update(gpus)
            return set()
        self.down.update(gpus)
        owners = {self.owner[g] for g in gpus} - {-1}
        for index in owners:
            self.take(self.active[index], [g for g in gpus if self.owner[g] == index], now)
        return owners

    def leave(self, app: RunApp, now: float, *, completed: bool) -> None:
        self.take(app, list(app.gpus), now)
        for job in app.jobs.values():
            self.stop(job)
            self.close(app, job, now)
        del self.active[app.index]
        contention = self.contention(app, now)
        self.records[app.index] = AppRecord(
            app.index, app.started, now, completed, app.attained_s, contention, tuple(app.placed)
        )

    def close(self, app: RunApp, job: RunJob, now: float) -> None:
        """Note down what GPUs a job had until now."""
        if job.gpus and job.since < now:
            resumes = min(job.resumes, now)
            self.spells.append(Spell(app.index, app.phase, job.number, job.since, resumes, now, job.gpus))

    def contention(self, app: RunApp, now: float) -> float:
        lived = now - self.world.apps[app.index].arrival_s
        # The app itself is there; the difference of two integrals over an instant may be less by rounding.
        return max((self.integral - app.integral) / lived, 1.0) if lived > 0 else float(max(len(self.active), 1))

    # ---- GPUs

    def take(self, app: RunApp, gpus: list[int], now: float) -> None:
        self.account(app, now)
        for g in gpus:
            self.owner[g] = -1
            self.lapsed.discard(g)
            app.gpus.discard(g)

    def account(self, app: RunApp, now: float) -> None:
        app.attained_s += len(app.gpus) * (now - app.since)
        app.since = now

    def decide(self, now: float) -> None:
        lapsed = sorted(self.lapsed)
        free = [g for g in range(self.cluster.n_gpus) if self.owner[g] < 0 and g not in self.down]
        offered = sorted({*lapsed, *free})
        if not offered or not self.active:
            return
        views = [self.view(app, now) for _, app in sorted(self.active.items())]
        given = self.policy.assign(self.cluster, offered, views)
        check_answer(self.policy.name, given, offered, sorted(self.active))
        touched: set[int] = set()
        for g in lapsed:
            if given.get(g, -1) != self.owner[g]:
                touched.add(self.owner[g])
                self.take(self.active[self.owner[g]], [g], now)
        winners: dict[int, list[int]] = {}
        for g, index in sorted(given.items()):
            winners.setdefault(index, []).append(g)
        for index, gpus in sorted(winners.items()):
            app = self.active[index]
            self.account(app, now)
            for g in gpus:
                if self.owner[g] != index:
                    touched.add(index)
                    self.ready[g] = now + self.world.container_s
                self.owner[g] = index
                app.gpus.add(g)
            if math.isnan(app.started):
                app.started = now
            self.bind(tuple(gpus))
            self.granted.append(Grant(now, index, tuple(sorted(app.gpus))))
        for index in sorted(touched):
            self.divide(self.active[index], now)

    def bind(self, gpus: tuple[int, ...]) -> None:
        """Lease GPUs; whoever had a lease on them has it no more."""
        number = max(self.grant_number) + 1
        for g in gpus:
            self.grant_number[g] = number
            self.lapsed.discard(g)
        if self.policy.preempts and math.isfinite(self.world.lease_s):
            self.env.process(self.lease(gpus, number))

    def measure(self, app: RunApp, now: float) -> None:
        """An agent that learns times the iterations that its jobs have done since it last did."""
        world, spec = self.world, self.world.apps[app.index]
        if world.beliefs.slowdown != "learned":
            return
        for number, job in sorted(app.jobs.items()):
            if not job.gpus or now <= job.resumes:
                continue
            left, varies = job.left(now), world.speeds is not None
            work = job.whole_s - left if varies else (now - job.resumes) * job.rate
            done = math.floor(work / spec.jobs[number].iteration_s)
            new = done - job.timed
            if new < 1:
                continue
            job.timed = done
            level = self.cluster.level(job.gpus)
            true = spec.slowdown.levels[level]
            if varies:  # what it times is slower by as much as its GPUs were
                true *= job.rate * (now - job.timed_at) / (job.timed_left_s - left)
                job.timed_at, job.timed_left_s = now, left
            found = noisy(world.beliefs, app.index, app.learner.batches, true, new)
            app.learner.observe(level, found, new, world.beliefs.spread * true)

    def believed(self, app: RunApp) -> Slowdown | None:
        """What an app's agent believes that distance costs, if it does not know; start values that are never measured
        are what is assumed."""
        return None if self.world.beliefs.slowdown == "known" else app.learner.slowdown

    def view(self, app: RunApp, now: float) -> AppView:
        self.account(app, now)
        self.measure(app, now)
        jobs = tuple(self.running(j, now) for _, j in sorted(app.jobs.items()))
        kept = tuple(sorted(app.gpus - self.lapsed))
        return AppView(
            app.index, self.world.apps[app.index], now, app.phase, jobs, kept, tuple(sorted(app.gpus & self.lapsed)),
            app.attained_s, self.contention(app, now), self.cluster.n_gpus, self.world.convention, self.believed(app),
        )  # fmt: skip

    def running(self, job: RunJob, now: float) -> RunningJob:
        return RunningJob(job.number, job.left(now), job.cap, job.gang, job.gpus)

    def divide(self, app: RunApp, now: float) -> None:
        """Divide an app's GPUs over its jobs; what none of them can use goes back."""
        world, spec = self.world, self.world.apps[app.index]
        self.measure(app, now)
        jobs = [self.running(j, now) for _, j in sorted(app.jobs.items())]
        restart = world.checkpoint_s + world.container_s
        shares = split(self.cluster, sorted(app.gpus), jobs, self.believed(app) or spec.slowdown, restart)
        for number, gpus in shares.items():
            job = app.jobs[number]
            if gpus == job.gpus:  # no restart, and no new event
                continue
            left = job.left(now)
            self.stop(job)
            if job.gpus and job.since == now:  # divided twice in an instant: the first was not carried out
                app.placed[self.cluster.level(job.gpus)] -= 1
            self.close(app, job, now)
            job.left_s, job.gpus, job.since, job.timed = left, gpus, now, 0
            if gpus:
                app.placed[self.cluster.level(gpus)] += 1
                up = max(now, *(self.ready[g] for g in gpus)) if world.containers == "app" else now + world.container_s
                resumes = up + (world.checkpoint_s if job.begun < now else 0.0)
                pace = rate(self.cluster, spec.slowdown, gpus, job.cap, job.gang)
                end = job.set_off(resumes, pace, world.speeds)
                job.begun = min(job.begun, now)
                job.process = self.env.process(self.job(app, job, end))
            else:
                job.rate, job.pace, job.resumes, job.mark = 0.0, 0.0, now, now
        used = {g for gpus in shares.values() for g in gpus}
        self.take(app, sorted(app.gpus - used), now)

    @staticmethod
    def stop(job: RunJob) -> None:
        if job.process is not None and job.process.is_alive:
            job.process.interrupt()
        job.process = None


def simulate_reference(world: SharingWorld, policy: Policy) -> SharingResult:
    """Simulate apps on a shared cluster, event by event.

    Raises
    ------
    InputError
        If an app has not ended when nothing can happen any more, or at the world's `horizon_s`; if the policy gives
        what is not on offer, or to nobody in the cluster.
    """
    begin = getattr(policy, "begin", None)
    if begin is not None:
        begin()  # a policy that remembers forgets
    simulation = _Simulation(world, policy)
    env = simulation.env
    env.process(simulation.arrivals())
    for machine, start, end in world.outages:
        env.process(simulation.outage(machine, start, end))
    for a in world.app_failures:
        env.process(simulation.app_failure(a.app, a.at_s))
    while len(simulation.records) < len(world.apps) and env.peek() <= world.horizon_s and env.peek() < math.inf:
        env.step()
    return SharingResult.of(world, policy.name, simulation.records, simulation.granted, simulation.spells)
