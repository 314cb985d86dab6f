"""The SimPy model of a training program: one process per mesh, which does its actions in order.

Sends are buffered, as the runtime's ``isend`` is: they never wait for the receive. With overlap a sender goes on at
once; without, it is busy until its message has arrived. Receives wait. A message asks for everything on its way at once
and gets it in the order of asking; at one instant the lowest mesh is served first, and what it sets off at that instant
comes before the next. Where hosts work for messages, the sender does so from its asking on, beside the message.
"""

from __future__ import annotations

from collections.abc import Generator
from heapq import heappop, heappush
from typing import Any

import numpy as np
import simpy

from ..clock import Clock
from .program.actions import Program
from .program.checks import deadlock
from .program.kernels import RECEIVE, SEND
from .timing import ActionTimes, Prepared
from .varying.drawn import Drawn

__all__ = ["run_reference"]

# SimPy priority: links are given out when all else of an instant has happened, so that all who ask at that instant are
# known and the lowest mesh comes first, whichever process SimPy happened to run first.
_GRANTS = 2


class _Network:
    """The links between meshes, and the queue of meshes that want to send."""

    def __init__(self, clock: Clock, costs: Prepared, times: ActionTimes, drawn: Drawn | None) -> None:
        self.clock, self.costs, self.times, self.drawn = clock, costs, times, drawn
        self.free = [0.0] * costs.n_resources
        self.asking: list[tuple[int, int, simpy.Event, int, float]] = []
        self.usable = [clock.event() for _ in range(costs.messages.n_messages)]

    def send(self, mesh: int, message: int, action: int, host_s: float) -> simpy.Event:
        """Ask for a message's way; the event happens when the sender may go on: after `host_s` at the earliest."""
        done = self.clock.event()
        heappush(self.asking, (mesh, message, done, action, host_s))
        grant = self.clock.at(self.clock.event(), self.clock.now, _GRANTS)
        assert grant.callbacks is not None
        grant.callbacks.append(self._grant)
        return done

    def _grant(self, _: simpy.Event) -> None:
        mesh, message, done, action, host_s = heappop(self.asking)
        clock, costs = self.clock, self.costs
        pair = message // costs.messages.units
        way = [r for r in costs.resources[pair].tolist() if r >= 0]
        begin = max([clock.now, *(self.free[r] for r in way)])
        scale = 1.0 if self.drawn is None else self.drawn.message(mesh, begin, action)
        end = begin + float(costs.seconds[message if costs.each else pair]) * scale
        for r in way:
            self.free[r] = end
        self.times.sent[message], self.times.arrived[message] = begin, end
        gather_s = float(costs.gather_s[message if costs.each else pair]) * scale
        clock.at(self.usable[message], end + gather_s if costs.overlap else end, value=gather_s)
        hosted = clock.now + host_s
        clock.at(done, hosted if costs.overlap else max(hosted, end))


def _mesh(
    mesh: int, program: Program, costs: Prepared, network: _Network, at: list[int]
) -> Generator[simpy.Event, Any, None]:
    """The process of one mesh: its actions, one after the other."""
    clock, times, drawn = network.clock, network.times, network.drawn
    kind, number = costs.messages.kind, costs.messages.message
    first, last = program.columns.offsets[mesh : mesh + 2].tolist()

    def took_s(row: int) -> float:
        """Seconds that the mesh itself works on an action that starts now."""
        return float(costs.duration[row]) * (1.0 if drawn is None else drawn.action(mesh, clock.now, row - first))

    if costs.begin_s[mesh] > 0:
        yield clock.until(float(costs.begin_s[mesh]))
    for row in range(first, last):
        at[mesh] = row
        times.start[row] = clock.now
        message = int(number[row])
        if kind[row] == SEND:
            yield network.send(mesh, message, row - first, took_s(row))
        elif kind[row] == RECEIVE:
            gather_s: float = yield network.usable[message]
            if not costs.overlap:
                yield clock.until(clock.now + gather_s)
            if costs.duration[row]:
                yield clock.until(clock.now + took_s(row))
        else:
            yield clock.until(clock.now + took_s(row))
        times.finish[row] = clock.now
    at[mesh] = int(program.columns.offsets[mesh + 1])


def run_reference(program: Program, costs: Prepared, drawn: Drawn | None = None) -> ActionTimes:
    """Time a program event by event; with `drawn`, by times that vary.

    Raises
    ------
    DeadlockError
        If meshes wait for each other for ever.
    """
    n, n_messages = len(program), costs.messages.n_messages
    times = ActionTimes(
        np.full(n, np.nan), np.full(n, np.nan), np.full(n_messages, np.nan), np.full(n_messages, np.nan)
    )
    clock = Clock()
    network = _Network(clock, costs, times, drawn)
    at = program.columns.offsets[:-1].tolist()
    for mesh in range(program.n_meshes):
        clock.process(_mesh(mesh, program, costs, network, at))
    clock.run()
    reached = np.array(at, dtype=np.int64)
    if np.any(reached < program.columns.offsets[1:]):
        raise deadlock(program, reached)
    return times
