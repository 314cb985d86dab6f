"""The readable model, in SimPy: a run that computes, saves, fails, waits and starts again; a process for each of these.

What happens, exactly:

- At 0 the run takes its nodes and computes; that first start costs nothing. It computes for an interval, stands still
  for a checkpoint, and so on; the last part is what is left. A checkpoint counts `background_s` after the stall. The
  run is over when the checkpoint of its last part counts.
- A node that fails stops the run, also in a checkpoint or a restart. What was done since the start, or since the
  checkpoint that counts last, is lost. The run goes on from that checkpoint `restart_s` after its nodes are complete:
  at once where enough stand by, else when repairs bring them. While it waits, its nodes can fail, too.
- With fewer replicas it computes as much less per second, and saves as often. When repairs allow one more, it goes on
  until the next checkpoint counts, stops, and starts again with more: what it did since that checkpoint began is lost.
- At one instant: repairs first, then what the run does, then failures, those of the script before others.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

import numpy as np
import simpy

from .checkpoints import Checkpoints
from .lives import life_s, repair_s
from .machines import Machines
from .record import CHECKPOINTING, COMPUTING, GROWS, RESTARTING, WAITING, Record

__all__ = ["run_reference"]

REPAIRS, FAILURES = 0, 2
"""Priorities at one instant; what the run does has SimPy's own, 1."""

SPENT = ("work_s", "slower_s", "checkpoint_s", "lost_s", "waiting_s", "restart_s")

Steps = Generator[simpy.Event, Any, None]


def run_reference(
    work_s: float, machines: Machines, checkpoints: Checkpoints, keys: np.ndarray[Any, Any], most: int
) -> Record:
    """One run; parameters as of `compiled.run_compiled`."""
    return _Run(work_s, machines, checkpoints, keys, most).record()


class _Run:
    def __init__(
        self, work_s: float, machines: Machines, checkpoints: Checkpoints, keys: np.ndarray[Any, Any], most: int
    ) -> None:
        self.env = simpy.Environment()
        self.work_s, self.machines, self.checkpoints, self.most = work_s, machines, checkpoints, most
        self.keys = [int(key) for key in keys]
        self.scale_s = machines.mtbf_s / math.gamma(1 + 1 / machines.shape)
        self.used, self.stands_by = set[int](), set(range(len(keys)))
        self.visits = [0] * len(keys)
        self.going = 0  # replicas that run; 0: it waits
        self.saved_s = 0.0
        self.phase, self.stretch = COMPUTING, 0
        self.began_s = self.settled_s = 0.0  # of the phase; of what is not yet known to be kept or lost
        self.spent = dict.fromkeys(SPENT, 0.0)
        self.rows: list[tuple[float, ...]] = []
        self.over = self.env.event()

    def record(self) -> Record:
        for strike in sorted(self.machines.strikes):
            self.call(lambda node=strike.node: self.fails(node), strike.at_s, FAILURES)
        self.settle()
        self.start(0.0)
        finished: Any = self.env.run(self.over)
        return Record(self.env.now, finished, **self.spent, rows=np.array(self.rows).reshape(-1, 6))

    def call(self, what: Any, delay_s: float, priority: Any) -> None:
        event = self.env.event()
        event.callbacks = [lambda _: what()]
        event._ok, event._value = True, None
        self.env.schedule(event, priority, delay_s)

    # ---- nodes

    def settle(self) -> None:
        """Take nodes that stand by, or let some go."""
        machines, up = self.machines, len(self.used) + len(self.stands_by)
        each = machines.nodes // machines.replicas
        self.going = min(machines.replicas, up // each)
        if self.going < machines.least:
            self.going = 0
        wanted = self.going * each if self.going else up
        for node in sorted(self.stands_by)[: max(0, wanted - len(self.used))]:
            self.stands_by.remove(node)
            self.used.add(node)
            visit = self.visits[node]
            life = life_s(self.keys[node], visit, self.scale_s, machines.shape)
            if not math.isinf(life):
                self.call(lambda n=node, v=visit: self.fails(n) if self.visits[n] == v else None, life, FAILURES)
        for node in sorted(self.used)[wanted:]:
            self.used.remove(node)
            self.stands_by.add(node)
            self.visits[node] += 1

    def fails(self, node: int) -> None:
        if node not in self.used or self.over.triggered:
            return
        self.stop(self.phase, node)
        visit, self.visits[node] = self.visits[node], self.visits[node] + 1
        self.used.remove(node)
        if self.machines.mttr_s > 0:
            self.call(lambda: self.repaired(node), repair_s(self.keys[node], visit, self.machines.mttr_s), REPAIRS)
        else:
            self.stands_by.add(node)
        self.settle()
        self.start(self.checkpoints.restart_s)

    def repaired(self, node: int) -> None:
        self.stands_by.add(node)
        if self.going == 0:
            self.spent["waiting_s"] += self.env.now - self.began_s
            self.settle()
            self.start(self.checkpoints.restart_s)

    # ---- the run

    def start(self, restart_s: float) -> None:
        self.stretch += 1
        self.began_s, self.phase = self.env.now, RESTARTING if self.going else WAITING
        if len(self.rows) >= self.most:
            self.over.succeed(False)
        elif self.going:
            self.env.process(self.computes(self.stretch, restart_s))

    def stop(self, phase: int, node: int) -> None:
        """A failure, or growth: what is not known to be kept is lost."""
        now, lost = self.env.now, 0.0
        if phase == WAITING:
            self.spent["waiting_s"] += now - self.began_s
        elif phase == RESTARTING:
            self.spent["restart_s"] += now - self.began_s
        else:
            lost = now - self.settled_s
        self.spent["lost_s"] += lost
        self.rows.append((now, node, phase, lost, self.saved_s, self.going))

    def computes(self, stretch: int, restart_s: float) -> Steps:
        """From a start to the end, unless something stops it: then its number is no longer the present one."""
        c, speed = self.checkpoints, self.going / self.machines.replicas
        yield self.env.timeout(restart_s)
        if self.stretch != stretch:
            return
        self.spent["restart_s"] += restart_s
        self.settled_s = self.env.now
        # What is left, at this speed, in seconds: decided once, so that rounding makes no part of its own.
        left_s = (self.work_s - self.saved_s) / speed
        parts = max(1, math.ceil(left_s / c.interval_s * (1 - 1e-12)))
        for k in range(parts):
            part_s = c.interval_s if k < parts - 1 else left_s - k * c.interval_s
            self.phase = COMPUTING
            yield self.env.timeout(part_s)
            if self.stretch != stretch:
                return
            self.phase = CHECKPOINTING
            yield self.env.timeout(c.stall_s)
            if self.stretch != stretch:
                return
            self.env.process(self.writes(stretch, part_s, speed, k == parts - 1))

    def writes(self, stretch: int, part_s: float, speed: float, last: bool) -> Steps:
        """In the background, until the checkpoint counts."""
        yield self.env.timeout(self.checkpoints.background_s)
        if self.stretch != stretch:
            return
        self.saved_s += part_s * speed
        self.spent["work_s"] += part_s * speed
        self.spent["slower_s"] += part_s * (1 - speed)
        self.spent["checkpoint_s"] += self.checkpoints.stall_s
        self.settled_s += part_s + self.checkpoints.stall_s
        if last:
            self.spent["checkpoint_s"] += self.checkpoints.background_s
            self.over.succeed(True)
        elif self.going < self.machines.replicas:
            up = len(self.used) + len(self.stands_by)
            if up >= (self.going + 1) * (self.machines.nodes // self.machines.replicas):
                self.stop(GROWS, -1)
                self.settle()
                self.start(self.checkpoints.restart_s)
