"""The SimPy model of the serving world: the reference that the compiled engines must equal.

One process per stage of each group, one that sends the requests; none per request. Decisions come from the same
`Following` object that the real runtime asks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import simpy

from ..clock import Clock
from .policy.batching import BatchingController
from .policy.following import Following
from .policy.following import Job as Decided
from .policy.scaling import Order, Scaler, Scaling
from .reality import Outcome, Reality, Rules
from .tables import ServingTables

__all__ = ["run_reference"]

# SimPy priorities: what happens first at one instant. Stages end (1 to 2, by group); answers are heard, so that a
# request that arrives when another finishes finds the shorter queue; groups that are free take batches (3 to 4, by
# group, as the compiled engine's tournament has it); groups come back; groups that have loaded serve (by group);
# groups fail; the load is evaluated; requests are tried anew; arrivals.
_HEARD, _FREED, _BACK, _LOADED, _FAILS, _SCALES, _RETRIES, _ARRIVALS = 2.0, 3.0, 4.25, 4.5, 5.0, 5.5, 6.0, 7.0


class _Job:
    """A job on its way through the stages of a group, and what it costs in each by profile."""

    __slots__ = ("hop", "latency", "number", "ready", "requests", "visit")

    def __init__(self, decided: Decided, latency: list[float], hop: float, ready: float, visit: int) -> None:
        self.number = decided.number
        self.requests = decided.requests
        self.latency = latency
        self.hop = hop
        self.ready = ready
        self.visit = visit  # jobs that the group was sent before


class _Stage:
    """One pipeline stage of a group. It serves jobs first come, first served, until its group fails."""

    def __init__(self, world: _World, group: int, index: int, following: _Stage | None, free: float) -> None:
        self.world = world
        self.group = group
        self.index = index
        self.following = following
        self.queue: deque[_Job] = deque()
        self.priority = 1.0 + group / world.n_groups
        self.free = free
        self.ended: simpy.Event = world.env.event()  # the job in service is done
        self.idle = self.alive = True
        world.env.process(self.run())

    def put(self, job: _Job) -> None:
        """Queue a job, or begin it if nothing is before it."""
        if self.idle:
            self.idle = False
            self.begin(job)
        else:
            self.queue.append(job)

    def begin(self, job: _Job) -> None:
        """Serve a job as soon as it is here and the stage is free."""
        # The job may still be on its way (`ready` lies a hop ahead): its start is computed, and not waited for.
        start = job.ready if job.ready > self.free else self.free
        took = self.world.took(self.group, self.index, start, job, start - self.free)
        self.free = start + took
        for r in job.requests:
            self.world.visits_start[r][self.index] = start
            self.world.visits_s[r][self.index] = took
        self.world.env.at(self.ended, self.free, self.priority, job)

    def run(self) -> Generator[simpy.Event, Any, None]:
        """Life of the stage: a job ends, is passed on, and the next one begins."""
        world = self.world
        while True:
            job: _Job = yield self.ended
            if not self.alive:
                return
            self.ended = world.env.event()
            if self.following is None:
                world.done(self.group, job)
            else:
                job.ready = self.free + world.hop(self.group, self.free, job)
                self.following.put(job)
            if self.queue:
                self.begin(self.queue.popleft())
            else:
                self.idle = True
            if self.index == 0 and not world.free_with_answer(self.group):
                world.freed(self)


class _World:
    """The simulated cluster and what it has recorded so far."""

    def __init__(
        self, requests: tuple[list[float], list[int], list[float]], tables: ServingTables, rules: Rules,
        clock: npt.NDArray[np.float64], reality: Reality | None,
    ) -> None:  # fmt: skip
        self.env = Clock()
        self.rules, self.tables, self.reality = rules, tables, reality
        self.varies = reality is not None and reality.varies
        self.following = Following(
            tables, rules.dispatch, rules.admission, rules.overhead, batching=rules.batching, correct=self.varies
        )
        self.following.policy.clock = [row[: int(pp)].tolist() for row, pp in zip(clock, tables.stages, strict=True)]
        self.arrival, self.model, self.deadline = requests
        n, width = len(self.arrival), tables.latency.shape[2]
        self.out = Outcome.empty(n, width)
        self.visits_start = [[np.nan] * width for _ in range(n)]
        self.visits_s = [[np.nan] * width for _ in range(n)]
        # Lists while it runs: single numbers are slow to write into arrays.
        self.finish, self.group = [np.nan] * n, [-1] * n
        self.batch, self.attempts = [0] * n, [0] * n
        self.n_groups = tables.n_groups
        self.sent = [0] * tables.n_groups
        self.heard = [-np.inf] * tables.n_groups
        self.groups = [self.stages(g, clock[g].tolist()) for g in range(tables.n_groups)]
        self.again: list[int] = []
        self.scaler: Scaler | None = (
            None if reality is None or reality.scaling is None else self.scaled(reality.scaling)
        )
        self.costs: dict[tuple[int, int, int], tuple[list[float], float]] = {}

    def stages(self, group: int, free: list[float]) -> list[_Stage]:
        """Stages of a group that begins its life."""
        made: list[_Stage] = []
        for k in reversed(range(int(self.tables.stages[group]))):
            made.insert(0, _Stage(self, group, k, made[0] if made else None, free[k]))
        return made

    def took(self, group: int, stage: int, start: float, job: _Job, idle_s: float) -> float:
        """Seconds of a visit that starts at `start`, before which the stage did nothing for `idle_s`."""
        if self.reality is None or not self.varies:
            return job.latency[stage]
        return job.latency[stage] * self.reality.stage(group, stage, start, job.visit, idle_s)

    def hop(self, group: int, at: float, job: _Job) -> float:
        """Seconds of a hop that begins at `at`."""
        if self.reality is None or not self.varies:
            return job.hop
        return job.hop * self.reality.hops.ratio(group, at, job.visit)

    def free_with_answer(self, group: int) -> bool:
        """Whether the controller hears of a free first stage by the answer: the real one of a single stage does."""
        return self.varies and self.tables.stages[group] == 1

    def offer(self, request: int) -> None:
        """A request arrives, or is tried anew."""
        m = self.model[request]
        job, _ = self.following.offer(self.env.now, request, m, self.deadline[request])
        self.launch(job)

    def launch(self, job: Decided | None) -> None:
        """Send a job into its group, if there is one."""
        if job is None:
            return
        key = (job.model, job.group, len(job.requests))
        if key not in self.costs:
            pair = self.tables.pair(job.model, job.group)
            column = int(np.searchsorted(self.tables.sizes, len(job.requests)))
            self.costs[key] = (self.tables.latency[pair, column].tolist(), float(self.tables.hop[pair]))
        latency, hop = self.costs[key]
        for r in job.requests:
            self.group[r] = job.group
            self.batch[r] = len(job.requests)
            self.attempts[r] += 1
        self.groups[job.group][0].put(_Job(job, latency, hop, self.env.now, self.sent[job.group]))
        self.sent[job.group] += 1
        if self.scaler is not None:
            self.scaler.sent(self.env.now, job.group, len(job.requests))

    def freed(self, stage: _Stage) -> None:
        """The controller hears, when all answers of this instant are in, that a first stage is free."""
        if self.rules.batching:
            self.env.call(lambda: self.take(stage), self.env.now, _FREED + stage.group / self.n_groups)

    def take(self, stage: _Stage) -> None:
        """A first stage that is free takes what waits."""
        if stage.alive and (self.scaler is None or self.scaler.serves(stage.group)):
            job, _ = self.following.stage_free(self.env.now, stage.group)
            self.launch(job)

    def done(self, group: int, job: _Job) -> None:
        """A job has left the last stage of its group; its answer comes when those before it have."""
        end, overhead = self.env.now, self.rules.overhead
        if self.reality is not None and self.varies:
            overhead *= self.reality.answers.ratio(group, end, job.visit)
        heard = self.heard[group] = max(self.heard[group], end + overhead)
        # A request counts as outstanding until its answer is out, although no stage is busy with it.
        if heard > end:
            self.env.call(lambda: self.answered(job.number, end), heard, _HEARD)
        else:  # nothing decides before all that ends at this instant has ended
            self.answered(job.number, end)

    def answered(self, number: int, end: float) -> None:
        """The controller has an answer."""
        job = self.following.end(number, end)
        if job is None:
            return
        for r in job.requests:
            self.finish[r] = self.env.now
        if self.scaler is not None:
            self.scaler.answered(self.env.now, job.group, len(job.requests))
        if self.free_with_answer(job.group):
            self.freed(self.groups[job.group][0])

    def fail(self, group: int) -> None:
        """A group goes away."""
        for stage in self.groups[group]:
            stage.alive = False
        if self.scaler is not None:
            self.scaler.failed(self.env.now, group)
        retried = self.reality is not None and self.reality.retried
        for r in self.following.lose(group):
            self.group[r], self.batch[r], self.out.failed[r] = -1, 0, not retried
            self.visits_start[r] = [np.nan] * len(self.visits_start[r])
            self.visits_s[r] = [np.nan] * len(self.visits_s[r])
            if retried:
                self.again.append(r)
        self.env.call(self.retry, self.env.now, _RETRIES)

    def retry(self) -> None:
        """Requests that were lost at this instant are tried anew, in order of arrival."""
        again, self.again = sorted(self.again), []
        for r in again:
            self.offer(r)

    def come_back(self, group: int) -> None:
        """A group is repaired: it serves, or what the rule has it do."""
        if self.scaler is None:
            self.begin(group)
        elif self.scaler.repaired(self.env.now, group):
            self.load(self.scaler, group)

    def begin(self, group: int) -> None:
        """A group begins to serve, empty."""
        now = self.env.now
        self.following.restore(group, now)
        self.heard[group] = -np.inf
        self.groups[group] = self.stages(group, [now] * int(self.tables.stages[group]))
        self.take(self.groups[group][0])

    def change(self, group: int, down: bool) -> None:
        """A group fails or comes back."""
        self.fail(group) if down else self.come_back(group)

    def scaled(self, scaling: Scaling) -> Scaler:
        """Who starts and drains groups; those that do not serve from the beginning are sent nothing."""
        models: list[list[int]] = [[] for _ in range(self.n_groups)]
        for m in range(self.tables.n_models):
            for p in self.tables.pairs_of(m):
                models[int(self.tables.pair_group[p])].append(m)
        scaler = Scaler(scaling, models)
        for g in range(self.n_groups):
            if not scaler.serves(g):
                self.following.policy.drain(g)
            if scaler.begun(g) == 0:
                self.load(scaler, g)
        return scaler

    def evaluations(self, scaler: Scaler) -> Generator[simpy.Event, Any, None]:
        """Evaluate the load as long as requests arrive."""
        every, policy, k = scaler.scaling.every_s, self.following.policy, 1
        while k * every <= self.arrival[-1]:
            yield self.env.until(k * every, _SCALES)
            waiting = [len(queue) for queue in policy.queues] if isinstance(policy, BatchingController) else ()
            order = scaler.evaluate(self.env.now, waiting)
            if order is not None:
                self.obey(scaler, order)
            k += 1

    def obey(self, scaler: Scaler, order: Order) -> None:
        """Start a group, take one back, or drain one."""
        group, what = order
        first = self.groups[group][0]
        if what == "drain":
            self.following.policy.drain(group)
        elif what == "start":
            self.load(scaler, group)
        else:
            self.following.policy.resume(group)
            # A single stage whose answer is still on its way is heard to be free with that.
            if first.idle and not (self.free_with_answer(group) and scaler.outstanding[group]):
                self.take(first)

    def load(self, scaler: Scaler, group: int) -> None:
        """A group begins to load, and serves after that, unless it fails before."""
        begun = self.env.now

        def loaded() -> None:
            if scaler.begun(group) == begun:
                scaler.loaded(self.env.now, group)
                self.begin(group)

        self.env.call(loaded, begun + scaler.scaling.load_s[group], _LOADED + 0.25 * group / self.n_groups)

    def arrivals(self) -> Generator[simpy.Event, Any, None]:
        """Send the requests."""
        for i, at in enumerate(self.arrival):
            yield self.env.until(at, _ARRIVALS)
            self.offer(i)

    def run(self) -> Outcome:
        """Serve them all."""
        for at, down, group in self.reality.changes if self.reality is not None else ():
            self.env.call(lambda g=group, d=down: self.change(g, d), at, _FAILS if down else _BACK)
        self.env.process(self.arrivals())
        if self.scaler is not None:
            self.env.process(self.evaluations(self.scaler))
        self.env.run()
        self.out.stage_start[:] = np.reshape(self.visits_start, self.out.stage_start.shape)
        self.out.stage_s[:] = np.reshape(self.visits_s, self.out.stage_s.shape)
        self.out.start[:] = self.out.stage_start[:, 0]
        self.out.finish[:], self.out.group[:] = self.finish, self.group
        self.out.batch[:], self.out.attempts[:] = self.batch, self.attempts
        return self.out if self.scaler is None else replace(self.out, uses=self.scaler.uses())


def run_reference(
    requests: tuple[npt.NDArray[np.float64], npt.NDArray[np.int32], npt.NDArray[np.float64]],
    tables: ServingTables,
    rules: Rules,
    clock: npt.NDArray[np.float64],
    reality: Reality | None = None,
) -> tuple[Outcome, list[int]]:
    """Serve a trace event by event.

    Parameters
    ----------
    requests : tuple of ndarray
        Arrival, model and SLO of each request.
    tables : ServingTables
        The placement.
    rules : Rules
        How it serves.
    clock : ndarray of float64, shape (n_groups, max_stages)
        When each stage is free, seconds; updated in place.
    reality : Reality, optional
        What happens; by the profile, and nobody fails, if not given.

    Returns
    -------
    tuple of (Outcome, list of int)
        A row per request, and the jobs that each group was sent.
    """
    arrival, model, slo = requests
    world = _World((arrival.tolist(), model.tolist(), (arrival + slo).tolist()), tables, rules, clock, reality)
    out = world.run()
    for g, stages in enumerate(world.groups):
        for stage in stages:
            clock[g, stage.index] = stage.free
    return out, world.sent
