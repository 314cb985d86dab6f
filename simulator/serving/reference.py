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

from .batching import Batch, BatchingController
from .policy import Controller
from .tables import ServingTables

__all__ = ["run_reference"]

_ARRIVALS_LAST = 3.0  # SimPy priority: at one instant, completions come before arrivals


def _after(env: simpy.Environment, delay: float, priority: float) -> simpy.Event:
    """A timeout with a priority: what happens at one instant happens in order of priority."""
    event = env.event()
    event._ok, event._value = True, None
    env.schedule(event, priority=priority, delay=delay)  # pyright: ignore[reportArgumentType]
    return event


class _Job:
    """What travels through a group: the requests of one batch and what the batch costs."""

    __slots__ = ("hop", "latency", "ready", "requests")

    def __init__(self, requests: tuple[int, ...], latency: list[float], hop: float, ready: float) -> None:
        self.requests = requests
        self.latency = latency
        self.hop = hop
        self.ready = ready


class _World:
    """The simulated cluster and what it has recorded so far."""

    def __init__(self, n: int, tables: ServingTables, controller: Controller, clock: npt.NDArray[np.float64]) -> None:
        self.env = simpy.Environment()
        self.controller = controller
        self.finish = np.full(n, np.nan)
        self.group = np.full(n, -1, dtype=np.int32)
        self.start = np.full(n, np.nan)
        self.batch = np.zeros(n, dtype=np.int32)
        self.clock = clock
        self.n_groups = tables.n_groups
        self.queues: list[list[deque[_Job]]] = []
        self.wake: list[list[simpy.Event | None]] = []
        for g, pp in enumerate(tables.stages):
            self.queues.append([deque() for _ in range(pp)])
            self.wake.append([None] * int(pp))
            for k in range(int(pp)):
                self.env.process(self._stage(g, k, int(pp)))

    def put(self, group: int, stage: int, job: _Job) -> None:
        """Queue a job at a stage and wake it."""
        self.queues[group][stage].append(job)
        sleeper = self.wake[group][stage]
        if sleeper is not None:
            self.wake[group][stage] = None
            sleeper.succeed()

    def _stage(self, group: int, stage: int, pp: int) -> Generator[simpy.Event, Any, None]:
        """One pipeline stage: first come, first served, for ever."""
        env, queue = self.env, self.queues[group][stage]
        priority = 1.0 + group / self.n_groups  # groups that become free together choose in order of index
        if self.clock[group, stage] > 0:  # carried over from the placement before
            yield env.timeout(self.clock[group, stage])
        while True:
            while queue:
                job = queue.popleft()
                if job.ready > env.now:
                    yield env.timeout(job.ready - env.now)
                if stage == 0:
                    for r in job.requests:
                        self.start[r] = env.now
                yield _after(env, job.latency[stage], priority)
                self.clock[group, stage] = env.now
                if stage + 1 < pp:
                    job.ready = env.now + job.hop
                    self.put(group, stage + 1, job)
                else:
                    self._done(group, job)
                if stage == 0 and isinstance(self.controller, BatchingController):
                    batch, _ = self.controller.stage_free(env.now, group)
                    if batch is not None:
                        self.launch(batch)
            self.wake[group][stage] = sleeper = env.event()
            yield sleeper

    def launch(self, batch: Batch) -> None:
        """Send a batch into its group."""
        self.put(batch.group, 0, _Job(batch.requests, batch.latency, batch.hop, self.env.now))
        for r in batch.requests:
            self.group[r] = batch.group
            self.batch[r] = len(batch.requests)

    def _done(self, group: int, job: _Job) -> None:
        overhead = self.controller.overhead
        for r in job.requests:
            self.finish[r] = self.env.now + overhead
        if overhead > 0:
            timer = self.env.timeout(overhead)
            assert timer.callbacks is not None
            timer.callbacks.append(lambda _: self._count(group, len(job.requests)))
        else:
            self._count(group, len(job.requests))

    def _count(self, group: int, n: int) -> None:
        for _ in range(n):
            self.controller.finished(group)


def _arrivals(
    world: _World,
    arrival: npt.NDArray[np.float64],
    model: npt.NDArray[np.int32],
    slo: npt.NDArray[np.float64],
) -> Generator[simpy.Event, Any, None]:
    env, controller = world.env, world.controller
    tables = controller.tables
    for i, (at, m, limit) in enumerate(zip(arrival.tolist(), model.tolist(), slo.tolist(), strict=True)):
        yield _after(env, at - env.now, _ARRIVALS_LAST)
        if isinstance(controller, BatchingController):
            batch, _ = controller.offer(at, i, m, at + limit)
            if batch is not None:
                world.launch(batch)
            continue
        decision = controller.arrive(at, m, at + limit)
        if decision.admitted:
            g = decision.group
            pair = tables.pair(m, g)
            world.group[i] = g
            world.batch[i] = 1
            world.put(g, 0, _Job((i,), tables.latency[pair, 0].tolist(), float(tables.hop[pair]), at))


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
    """Serve a trace event by event. Returns ``(finish, group, clock, start, batch)``; see `compiled.run`."""
    kind = BatchingController if batching else Controller
    controller = kind(tables, dispatch, admission, overhead)
    if clock is None:
        clock = np.zeros((tables.n_groups, tables.latency.shape[2]))
    controller.clock = [row[: int(pp)].tolist() for row, pp in zip(clock, tables.stages, strict=True)]
    world = _World(len(arrival), tables, controller, clock)
    world.env.process(_arrivals(world, arrival, model, slo))
    world.env.run()
    return world.finish, world.group, world.clock, world.start, world.batch
