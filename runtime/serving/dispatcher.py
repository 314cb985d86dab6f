"""The controller's decisions, clock-free: the simulator's own policy, with a column per request.

The asyncio controller drives a `Dispatcher` with real time, `attribution.replay` with measured stage times.
"""

from __future__ import annotations

import numpy as np

from ...simulator.serving.policy import Controller, Following, Job
from ...simulator.serving.tables import ServingTables
from ...traces.trace import Trace

__all__ = ["Dispatcher", "Job"]


class Dispatcher:
    """Asks `Following`, the simulator's policy that is corrected by what really happens, and records what comes of it.

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
    attempts : ndarray of int32, shape (n,)
        How often each request was sent to a group.
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
        self.following = Following(tables, dispatch, admission, overhead, batching=batching, correct=correct)
        self.waiting = 0
        n = len(trace)
        self.finish = np.full(n, np.nan)
        self.start = np.full(n, np.nan)
        self.group = np.full(n, -1, dtype=np.int32)
        self.batch = np.zeros(n, dtype=np.int32)
        self.failed = np.zeros(n, dtype=bool)
        self.attempts = np.zeros(n, dtype=np.int32)
        self.undecided = n
        self._model: list[int] = trace.model.tolist()
        self._deadline: list[float] = (trace.arrival + trace.slo).tolist()

    @property
    def policy(self) -> Controller:
        """Who decides."""
        return self.following.policy

    @property
    def jobs(self) -> list[Job]:
        """All jobs so far, by their number."""
        return self.following.jobs

    def arrive(self, now: float, request: int) -> Job | None:
        """A request has arrived; the job to send, if it is to run at once."""
        job, waits = self.following.offer(now, request, self._model[request], self._deadline[request])
        self.waiting += waits
        self.undecided -= job is None and not waits
        return self._sent(job)

    def freed(self, now: float, group: int) -> Job | None:
        """The first stage of `group` is free (batching only); the job that it takes."""
        job, dropped = self.following.stage_free(now, group)
        self.waiting -= len(dropped) + (len(job.requests) if job is not None else 0)
        self.undecided -= len(dropped)
        return self._sent(job)

    def _sent(self, job: Job | None) -> Job | None:
        if job is not None:
            for request in job.requests:
                self.group[request] = job.group
                self.batch[request] = len(job.requests)
                self.attempts[request] += 1
        return job

    def finished(self, number: int, end: float, finish: float) -> None:
        """A job left its last stage at `end`; its answer was there at `finish`, seconds."""
        job = self.following.end(number, end)
        if job is None:  # its group was given up meanwhile
            return
        for request in job.requests:
            self.finish[request] = finish
        self.undecided -= len(job.requests)

    def lost(self, group: int) -> list[int]:
        """A group is gone; the requests that fail with it: those that it ran, and those that no other can serve."""
        requests = self.following.lose(group)
        for request in requests:
            self.waiting -= int(self.group[request] < 0)  # in no group yet
            self.group[request] = -1
            self.batch[request] = 0
            self.start[request] = np.nan
            self.failed[request] = True
        self.undecided -= len(requests)
        return requests

    def again(self, now: float, request: int) -> Job | None:
        """A request that was `lost` is tried anew, with the deadline that it had; the job to send."""
        self.failed[request] = False
        self.undecided += 1
        return self.arrive(now, request)

    def restored(self, now: float, group: int) -> Job | None:
        """A group is back, idle; the job that it takes (batching only)."""
        self.following.restore(group, now)
        return self.freed(now, group)
