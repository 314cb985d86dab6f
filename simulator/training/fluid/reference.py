"""The SimPy model of a training program whose links are shared.

A process per mesh does its actions in order, as in ``training/reference.py``. What needs links is a flow: it has so
many seconds of work, and goes at the rate that `fair_rates` gives it among all flows of the moment. The messages of a
pair of stages follow each other, as on one communicator; so do the buckets of a mesh's gradients.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy

from ...clock import Clock
from ..program.actions import Program
from ..program.checks import deadlock
from ..program.columns import REDUCE
from ..program.kernels import RECEIVE, SEND
from ..timing import ActionTimes, Prepared
from ..varying.drawn import Drawn
from .loads import Loaded
from .rates import fair_rates

__all__ = ["run_reference"]

Steps = Generator[simpy.Event, Any, None]


@dataclass(eq=False)
class _Flow:
    left_s: float
    use: dict[int, float]
    done: simpy.Event
    rate: float = 0.0


class _Network:
    """All flows of the moment."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.flows, self.since, self.turn = clock, list[_Flow](), 0.0, 0

    def take(self, seconds: float, use: dict[int, float]) -> Steps:
        """Work that takes so many seconds alone."""
        if seconds <= 0.0:
            return
        if not use:
            yield self.clock.until(self.clock.now + seconds)
            return
        flow = _Flow(seconds, use, self.clock.event())
        self._settle()
        self.flows.append(flow)
        self._share()
        yield flow.done

    def _settle(self) -> None:
        for flow in self.flows:
            flow.left_s -= flow.rate * (self.clock.now - self.since)
        self.since = self.clock.now

    def _share(self) -> None:
        self.turn += 1
        if not self.flows:
            return
        for flow, rate in zip(self.flows, fair_rates([f.use for f in self.flows]), strict=True):
            flow.rate = rate
        ends = [self.clock.now + max(0.0, f.left_s) / f.rate for f in self.flows]
        first, turn = min(ends), self.turn
        over = [f for f, end in zip(self.flows, ends, strict=True) if end == first]

        def ended() -> None:
            if turn != self.turn:
                return  # something began or ended meanwhile
            self._settle()
            self.flows = [f for f in self.flows if f not in over]
            self._share()
            for flow in over:
                flow.done.succeed()

        self.clock.call(ended, first)


class _Lane:
    """Does one job after another, in the order in which they come."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.jobs, self.idle = clock, deque[Steps](), clock.event()
        clock.process(self._work())

    def put(self, job: Steps) -> None:
        self.jobs.append(job)
        if not self.idle.triggered:
            self.idle.succeed()

    def _work(self) -> Steps:
        while True:
            yield self.idle
            while self.jobs:
                yield from self.jobs.popleft()
            self.idle = self.clock.event()


class _World:
    """A program under way: its messages, its gradients, its meshes."""

    def __init__(self, program: Program, costs: Prepared, loads: Loaded, drawn: Drawn | None) -> None:
        self.program, self.costs, self.loads, self.drawn = program, costs, loads, drawn
        self.clock = Clock()
        self.network = _Network(self.clock)
        n, n_messages = len(program), costs.messages.n_messages
        nothing = [np.full(k, np.nan) for k in (n, n, n_messages, n_messages)]
        self.times = ActionTimes(*nothing)
        self.arrivals = [self.clock.event() for _ in range(n_messages)]
        self.wires = [_Lane(self.clock) for _ in costs.messages.pairs]
        self.reducers = [_Lane(self.clock) for _ in range(program.n_meshes)]
        self.waiting = loads.buckets.tolist()
        self.reduced = [self.clock.event() for _ in range(program.n_stages)]
        self.at = program.columns.offsets[:-1].tolist()
        for mesh in range(program.n_meshes):
            self.clock.process(self._mesh(mesh))

    def _took_s(self, mesh: int, row: int) -> float:
        """Seconds of an action that starts now, alone."""
        action = row - int(self.program.columns.offsets[mesh])
        return float(self.costs.duration[row]) * (
            1.0 if self.drawn is None else self.drawn.action(mesh, self.clock.now, action)
        )

    def _mesh(self, mesh: int) -> Steps:
        clock, costs, times = self.clock, self.costs, self.times
        first, last = self.program.columns.offsets[mesh : mesh + 2].tolist()
        if costs.begin_s[mesh] > 0:
            yield clock.until(float(costs.begin_s[mesh]))
        for row in range(first, last):
            self.at[mesh] = row
            times.start[row] = clock.now
            yield from self._action(mesh, row)
            times.finish[row] = clock.now
        self.at[mesh] = last

    def _action(self, mesh: int, row: int) -> Steps:
        clock, costs, messages = self.clock, self.costs, self.costs.messages
        kind, message = int(messages.kind[row]), int(messages.message[row])
        stage, op = int(self.program.columns.stage[row]), int(self.program.columns.op[row])
        if kind == SEND:
            hosted = clock.now + self._took_s(mesh, row)
            self.wires[message // messages.units].put(self._message(mesh, row, message))
            if not costs.overlap:
                yield self.arrivals[message]
            yield clock.until(max(hosted, clock.now))
        elif kind == RECEIVE:
            gather_s: float = yield self.arrivals[message]
            ready = float(self.times.arrived[message]) if costs.overlap else clock.now
            yield clock.until(max(clock.now, ready + gather_s))
            yield clock.until(clock.now + self._took_s(mesh, row))
        elif op == REDUCE and self.loads.buckets[stage]:
            yield self.reduced[stage]
        else:
            parts, seconds = int(self.loads.parts[row]), self._took_s(mesh, row)
            for _ in range(max(parts, 1)):
                yield from self.network.take(seconds / max(parts, 1), self.loads.use(int(self.loads.of_row[row])))
                if parts:
                    self.reducers[mesh].put(self._bucket(mesh, stage))

    def _message(self, mesh: int, row: int, message: int) -> Steps:
        costs, times, pair = self.costs, self.times, message // self.costs.messages.units
        action = row - int(self.program.columns.offsets[mesh])
        scale = 1.0 if self.drawn is None else self.drawn.message(mesh, self.clock.now, action)
        which = message if costs.each else pair
        times.sent[message] = self.clock.now
        load = len(self.loads.links) - len(costs.messages.pairs) + pair
        yield from self.network.take(float(costs.seconds[which]) * scale, self.loads.use(load))
        times.arrived[message] = self.clock.now
        self.arrivals[message].succeed(float(costs.gather_s[which]) * scale)

    def _bucket(self, mesh: int, stage: int) -> Steps:
        row = int(self.loads.reduces[stage])
        seconds = self._took_s(mesh, row) / int(self.loads.buckets[stage])
        yield from self.network.take(seconds, self.loads.use(int(self.loads.of_row[row])))
        self.waiting[stage] -= 1
        if not self.waiting[stage]:
            self.reduced[stage].succeed()


def run_reference(program: Program, costs: Prepared, loads: Loaded, drawn: Drawn | None = None) -> ActionTimes:
    """Time a program event by event; with `drawn`, by times that vary.

    Raises
    ------
    DeadlockError
        If meshes wait for each other for ever.
    """
    world = _World(program, costs, loads, drawn)
    world.clock.run()
    reached = np.array(world.at, dtype=np.int64)
    if np.any(reached < program.columns.offsets[1:]):
        raise deadlock(program, reached)
    return world.times
