"""The SimPy model of the serving world: the reference that the compiled engine must equal.

One process per stage of each group, one that sends the requests; none per request. Decisions come from the same
`Controller` objects that the real runtime asks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import Any

import numpy as np
import numpy.typing as npt
import simpy

from ..clock import Clock
from .policy import Controller
from .policy.batching import Batch, BatchingController
from .tables import ServingTables

__all__ = ["run_reference"]

# SimPy priority of arrivals, above those of stages (1 to 2): at one instant completions come first, so that a request
# that arrives when another finishes finds the shorter queue. The compiled engine compares with ``<=`` for the same end.
_ARRIVALS_LAST = 3.0


class _Job:
    """A batch on its way through the stages of a group: its requests, and what it costs in each stage."""

    __slots__ = ("hop", "latency", "ready", "requests")

    def __init__(self, requests: tuple[int, ...], latency: list[float], hop: float, ready: float) -> None:
        self.requests = requests
        self.latency = latency
        self.hop = hop
        self.ready = ready


class _Stage:
    """One pipeline stage of a group. It serves batches first come, first served, until the simulation ends."""

    def __init__(self, world: _World, group: int, index: int, following: _Stage | None) -> None:
        self.world = world
        self.group = group
        self.index = index
        self.following = following
        self.queue: deque[_Job] = deque()
        # Groups that become free at one instant choose from the queues in order of their index, as the compiled
        # engine's tournament does. The quotient stays below 1, and so before arrivals.
        self.priority = 1.0 + group / world.n_groups
        self.free = float(world.clock[group, index])  # later than 0 if carried over from the placement before
        self.ended: simpy.Event = world.env.event()  # the job in service is done
        self.idle = True
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
        self.free = start + job.latency[self.index]
        if self.index == 0:
            for r in job.requests:
                self.world.start[r] = start
        self.world.env.at(self.ended, self.free, self.priority, job)

    def run(self) -> Generator[simpy.Event, Any, None]:
        """Life of the stage: a job ends, is passed on, and the next one begins."""
        env, controller = self.world.env, self.world.controller
        while True:
            job: _Job = yield self.ended
            self.ended = env.event()
            if self.following is None:
                self.world.done(self.group, job)
            else:
                job.ready = self.free + job.hop
                self.following.put(job)
            if self.queue:
                self.begin(self.queue.popleft())
            else:
                self.idle = True
            if self.index == 0 and isinstance(controller, BatchingController):
                batch, _ = controller.stage_free(env.now, self.group)
                if batch is not None:
                    self.world.launch(batch)


class _World:
    """The simulated cluster and what it has recorded so far."""

    def __init__(self, n: int, tables: ServingTables, controller: Controller, clock: npt.NDArray[np.float64]) -> None:
        self.env = Clock()
        self.controller = controller
        self.finish = np.full(n, np.nan)
        self.group = np.full(n, -1, dtype=np.int32)
        self.start = np.full(n, np.nan)
        self.batch = np.zeros(n, dtype=np.int32)
        self.clock = clock
        self.n_groups = tables.n_groups
        self.groups: list[list[_Stage]] = []
        for g, pp in enumerate(tables.stages.tolist()):
            stages: list[_Stage] = []
            for k in reversed(range(pp)):
                stages.insert(0, _Stage(self, g, k, stages[0] if stages else None))
            self.groups.append(stages)

    def launch(self, batch: Batch) -> None:
        """Send a batch into its group."""
        self.groups[batch.group][0].put(_Job(batch.requests, batch.latency, batch.hop, self.env.now))
        for r in batch.requests:
            self.group[r] = batch.group
            self.batch[r] = len(batch.requests)

    def done(self, group: int, job: _Job) -> None:
        """A job has left the last stage of its group."""
        overhead = self.controller.overhead
        finish = self.env.now + overhead
        for r in job.requests:
            self.finish[r] = finish
        if overhead > 0:  # a request counts as outstanding until its answer is out, although no stage is busy with it
            self.env.call(lambda: self.count(group, len(job.requests)), finish)
        else:
            self.count(group, len(job.requests))

    def count(self, group: int, n: int) -> None:
        """Requests of a group have finished."""
        for _ in range(n):
            self.controller.finished(group)

    def clocks(self) -> npt.NDArray[np.float64]:
        """When each stage was free in the end, seconds."""
        for g, stages in enumerate(self.groups):
            for stage in stages:
                self.clock[g, stage.index] = stage.free
        return self.clock


def _arrivals(
    world: _World,
    arrival: npt.NDArray[np.float64],
    model: npt.NDArray[np.int32],
    slo: npt.NDArray[np.float64],
) -> Generator[simpy.Event, Any, None]:
    env, controller = world.env, world.controller
    tables = controller.tables
    costs = {
        (m, int(tables.pair_group[p])): (tables.latency[p, 0].tolist(), float(tables.hop[p]))
        for m in range(tables.n_models)
        for p in tables.pairs_of(m)
    }
    for i, (at, m, limit) in enumerate(zip(arrival.tolist(), model.tolist(), slo.tolist(), strict=True)):
        yield env.until(at, _ARRIVALS_LAST)
        if isinstance(controller, BatchingController):
            batch, _ = controller.offer(at, i, m, at + limit)
            if batch is not None:
                world.launch(batch)
            continue
        decision = controller.arrive(at, m, at + limit)
        if decision.admitted:
            g = decision.group
            world.group[i] = g
            world.batch[i] = 1
            latency, hop = costs[m, g]
            world.groups[g][0].put(_Job((i,), latency, hop, at))


def run_reference(
    arrival: npt.NDArray[np.float64],
    model: npt.NDArray[np.int32],
    slo: npt.NDArray[np.float64],
    tables: ServingTables,
    dispatch: str,
    admission: bool,
    overhead: float,
    *,
    batching: bool = False,
    clock: npt.NDArray[np.float64] | None = None,
) -> tuple[
    npt.NDArray[np.float64], npt.NDArray[np.int32], npt.NDArray[np.float64], npt.NDArray[np.float64],
    npt.NDArray[np.int32],
]:  # fmt: skip
    """Serve a trace event by event. Returns ``(finish, group, clock, start, batch)``; see `compiled.engine.run`."""
    kind = BatchingController if batching else Controller
    controller = kind(tables, dispatch, admission, overhead)
    if clock is None:
        clock = np.zeros((tables.n_groups, tables.latency.shape[2]))
    controller.clock = [row[: int(pp)].tolist() for row, pp in zip(clock, tables.stages, strict=True)]
    world = _World(len(arrival), tables, controller, clock)
    world.env.process(_arrivals(world, arrival, model, slo))
    world.env.run()
    return world.finish, world.group, world.clocks(), world.start, world.batch
