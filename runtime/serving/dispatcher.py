"""The controller's decisions, clock-free: the simulator's policy objects, whose predictions follow what really happens.

The asyncio controller drives a `Dispatcher` with real time, `attribution.replay` with measured stage times.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from ...simulator.serving.batching import Batch, BatchingController
from ...simulator.serving.policy import Controller
from ...simulator.serving.tables import ServingTables
from ...traces.trace import Trace

__all__ = ["Dispatcher", "Job"]


@dataclass(slots=True, eq=False)
class Job:
    """One request or one batch, which a group is asked to run.

    Parameters
    ----------
    number : int
        Counts the jobs of a run.
    group, model : int
        Where, and what.
    requests : tuple of int
        The trace's rows that it answers.
    end : float
        Predicted end of the last stage, seconds, in the frame of the group's drift: predictions move with it.
    """

    number: int
    group: int
    model: int
    requests: tuple[int, ...]
    end: float


class Dispatcher:
    """Asks the policy, and corrects its clocks by what really happens.

    The policy predicts when each stage is free by adding up profiled latencies. A group that falls idle has its clocks
    in the past, so an error cannot outlive a busy period; within one it would add up. Hence two corrections, each of
    which shifts all clocks of a group by what the prediction was off:

    - a job leaves the last stage: the shift is its real end minus its predicted end;
    - a decision is due while the oldest job of a group is overdue: it cannot end before now.

    With batching, a first stage that reports itself free also sets its own clock.

    Parameters
    ----------
    trace : Trace
        The requests.
    tables : ServingTables
        The placement.
    dispatch, admission, overhead
        As in `simulator.simulate`.
    batching : bool
        Whether requests are batched; the largest batch is the tables' largest size.
    correct : bool
        Whether clocks follow reality; False leaves them to the profile.

    Attributes
    ----------
    finish, start : ndarray of float64, shape (n,)
        Finish (overhead included) and start, seconds; NaN where rejected or failed. `start` is the driver's to fill.
    group, batch : ndarray of int32, shape (n,)
        Group, -1 where rejected or failed, and batch size.
    failed : ndarray of bool, shape (n,)
        Requests lost with a group.
    """

    def __init__(
        self,
        trace: Trace,
        tables: ServingTables,
        *,
        dispatch: str = "shortest_queue",
        admission: bool = True,
        overhead: float = 0.0,
        batching: bool = False,
        correct: bool = True,
    ) -> None:
        self.trace, self.dispatch = trace, dispatch
        kind = BatchingController if batching else Controller
        self.policy: Controller = kind(tables, dispatch, admission, overhead)
        self.jobs: list[Job] = []
        self.waiting = 0
        n = len(trace)
        self.finish = np.full(n, np.nan)
        self.start = np.full(n, np.nan)
        self.group = np.full(n, -1, dtype=np.int32)
        self.batch = np.zeros(n, dtype=np.int32)
        self.failed = np.zeros(n, dtype=bool)
        self.undecided = n
        self._correct = correct
        self._model: list[int] = trace.model.tolist()
        self._deadline: list[float] = (trace.arrival + trace.slo).tolist()
        self._drift = [0.0] * tables.n_groups
        self._running: list[deque[Job]] = [deque() for _ in range(tables.n_groups)]

    def arrive(self, now: float, request: int) -> Job | None:
        """A request has arrived; the job to send, if it is to run at once."""
        policy, model = self.policy, self._model[request]
        for group, running in enumerate(self._running):
            if running and running[0].end + self._drift[group] < now:
                self._shift(group, now - running[0].end - self._drift[group])
        if isinstance(policy, BatchingController):
            batch, waits = policy.offer(now, request, model, self._deadline[request])
            self.waiting += waits
            self.undecided -= not waits and batch is None
            return None if batch is None else self._launch(batch.group, model, batch.requests, batch.finish)
        decision = policy.arrive(now, model, self._deadline[request])
        if decision.group < 0:
            self.undecided -= 1
            return None
        return self._launch(decision.group, model, (request,), decision.finish)

    def freed(self, now: float, group: int) -> Job | None:
        """The first stage of `group` is free (batching only); the job that it takes."""
        policy = self.policy
        if not isinstance(policy, BatchingController):
            return None
        if self._correct:
            policy.clock[group][0] = now
        batch, dropped = policy.stage_free(now, group)
        self.waiting -= len(dropped)
        self.undecided -= len(dropped)
        return None if batch is None else self._take(batch)

    def _take(self, batch: Batch) -> Job:
        self.waiting -= len(batch.requests)
        return self._launch(batch.group, batch.model, batch.requests, batch.finish)

    def _launch(self, group: int, model: int, requests: tuple[int, ...], finish: float) -> Job:
        end = finish - self.policy.overhead - self._drift[group]
        job = Job(len(self.jobs), group, model, requests, end)
        self.jobs.append(job)
        self._running[group].append(job)
        for request in requests:
            self.group[request] = group
            self.batch[request] = len(requests)
        return job

    def finished(self, number: int, end: float, finish: float) -> None:
        """A job left its last stage at `end`; its answer was there at `finish`, seconds."""
        job = self.jobs[number]
        running = self._running[job.group]
        if job not in running:  # its group was given up meanwhile
            return
        running.remove(job)
        self._shift(job.group, end - job.end - self._drift[job.group])
        for request in job.requests:
            self.finish[request] = finish
            self.policy.finished(job.group)
        self.undecided -= len(job.requests)

    def _shift(self, group: int, seconds: float) -> None:
        if not self._correct:
            return
        self._drift[group] += seconds
        clock = self.policy.clock[group]
        for k, free in enumerate(clock):
            clock[k] = free + seconds

    def lost(self, group: int) -> list[int]:
        """A group is gone; the requests that fail with it: those that it ran, and those that no other can serve."""
        requests = [r for job in self._running[group] for r in job.requests]
        self._running[group].clear()
        orphans = self.policy.remove(group)
        self.waiting -= len(orphans)
        requests += orphans
        for request in requests:
            self.group[request] = -1
            self.batch[request] = 0
            self.start[request] = np.nan
            self.failed[request] = True
        self.undecided -= len(requests)
        return requests
