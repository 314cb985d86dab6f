"""The SimPy model of a training program: one process per mesh, which does its actions in order.

Sends are buffered, as the runtime's ``isend`` is: they never wait for the receive. With overlap a sender goes on at
once; without, it is busy until its message has arrived. Receives wait. A message asks for everything on its way at once
and gets it in the order of asking; at one instant the lowest mesh is served first, and what it sets off at that instant
comes before the next.
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

__all__ = ["run_reference"]

# SimPy priority: links are given out when all else of an instant has happened, so that all who ask at that instant are
# known and the lowest mesh comes first, whichever process SimPy happened to run first.
_GRANTS = 2


class _Network:
    """The links between meshes, and the queue of meshes that want to send."""

    def __init__(self, clock: Clock, costs: Prepared, times: ActionTimes) -> None:
        self.clock, self.costs, self.times = clock, costs, times
        self.free = [0.0] * costs.n_resources
        self.asking: list[tuple[int, int, simpy.Event]] = []
        self.usable = [clock.event() for _ in range(costs.messages.n_messages)]

    def send(self, mesh: int, message: int) -> simpy.Event:
        """Ask for a message's way; the event happens when the sender may go on."""
        done = self.clock.event()
        heappush(self.asking, (mesh, message, done))
        grant = self.clock.at(self.clock.event(), self.clock.now, _GRANTS)
        assert grant.callbacks is not None
        grant.callbacks.append(self._grant)
        return done

    def _grant(self, _: simpy.Event) -> None:
        message, done = heappop(self.asking)[1:]
        clock, costs = self.clock, self.costs
        pair = message // costs.messages.units
        way = [r for r in costs.resources[pair].tolist() if r >= 0]
        begin = max([clock.now, *(self.free[r] for r in way)])
        end = begin + float(costs.seconds[message if costs.each else pair])
        for r in way:
            self.free[r] = end
        self.times.sent[message], self.times.arrived[message] = begin, end
        gathered = end + float(costs.gather_s[message if costs.each else pair])
        clock.at(self.usable[message], gathered if costs.overlap else end)
        clock.at(done, clock.now if costs.overlap else end)


def _mesh(
    mesh: int, program: Program, costs: Prepared, network: _Network, at: list[int]
) -> Generator[simpy.Event, Any, None]:
    """The process of one mesh: its actions, one after the other."""
    clock, times = network.clock, network.times
    kind, number = costs.messages.kind, costs.messages.message
    for row in range(*program.columns.offsets[mesh : mesh + 2].tolist()):
        at[mesh] = row
        times.start[row] = clock.now
        message = int(number[row])
        if kind[row] == SEND:
            yield network.send(mesh, message)
        elif kind[row] == RECEIVE:
            yield network.usable[message]
            if not costs.overlap:
                yield clock.until(clock.now + float(costs.gathering_s(number[row])))
        else:
            yield clock.until(clock.now + float(costs.duration[row]))
        times.finish[row] = clock.now
    at[mesh] = int(program.columns.offsets[mesh + 1])


def run_reference(program: Program, costs: Prepared) -> ActionTimes:
    """Time a program event by event.

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
    network = _Network(clock, costs, times)
    at = program.columns.offsets[:-1].tolist()
    for mesh in range(program.n_meshes):
        clock.process(_mesh(mesh, program, costs, network, at))
    clock.run()
    reached = np.array(at, dtype=np.int64)
    if np.any(reached < program.columns.offsets[1:]):
        raise deadlock(program, reached)
    return times
