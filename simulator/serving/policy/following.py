"""`Following`: a policy whose predictions follow what really happens, and which knows what each group is running."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from ..tables import ServingTables
from .batching import Batch, BatchingController
from .controller import Controller

__all__ = ["Following", "Job"]


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


class Following:
    """Asks a policy, and corrects its clocks by what really happens.

    The policy predicts when each stage is free by adding up profiled latencies. A group that falls idle has its clocks
    in the past, so an error cannot outlive a busy period; within one it would add up. Hence two corrections, each of
    which shifts all clocks of a group by what the prediction was off:

    - a job leaves the last stage: the shift is its real end minus its predicted end;
    - a decision concerns a group whose oldest job is overdue: that job cannot end before now.

    With batching, a first stage that reports itself free also sets its own clock.

    Parameters
    ----------
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
    policy : Controller
        Who decides.
    jobs : list of Job
        All jobs so far, by their number.
    """

    def __init__(
        self,
        tables: ServingTables,
        dispatch: str = "shortest_queue",
        admission: bool = True,
        overhead: float = 0.0,
        *,
        batching: bool = False,
        correct: bool = True,
    ) -> None:
        kind = BatchingController if batching else Controller
        self.policy: Controller = kind(tables, dispatch, admission, overhead)
        self.jobs: list[Job] = []
        self.correct = correct
        self._drift = [0.0] * tables.n_groups
        self._running: list[deque[Job]] = [deque() for _ in range(tables.n_groups)]

    def offer(self, now: float, request: int, model: int, deadline: float) -> tuple[Job | None, bool]:
        """A request has arrived, or is tried anew: the job to send, or whether the request waits (else rejected)."""
        policy = self.policy
        if self.correct:
            for group in policy.groups_of(model):
                self._overdue(now, group)
        if isinstance(policy, BatchingController):
            batch, waits = policy.offer(now, request, model, deadline)
            return (None if batch is None else self._take(batch)), waits
        decision = policy.arrive(now, model, deadline)
        if decision.group < 0:
            return None, False
        return self._launch(decision.group, model, (request,), decision.finish), False

    def stage_free(self, now: float, group: int) -> tuple[Job | None, list[int]]:
        """The first stage of `group` is free (batching only): the job that it takes, and the requests dropped."""
        policy = self.policy
        if not isinstance(policy, BatchingController):
            return None, []
        if self.correct:
            self._overdue(now, group)
            policy.clock[group][0] = now
        batch, dropped = policy.stage_free(now, group)
        return (None if batch is None else self._take(batch)), dropped

    def end(self, number: int, end: float) -> Job | None:
        """A job is answered that left the last stage at `end`, seconds; None if it was lost with its group."""
        job = self.jobs[number]
        running = self._running[job.group]
        if running and running[0] is job:
            running.popleft()
        elif job in running:
            running.remove(job)
        else:
            return None
        if self.correct:
            self._shift(job.group, end - job.end - self._drift[job.group])
        for _ in job.requests:
            self.policy.finished(job.group)
        return job

    def lose(self, group: int) -> list[int]:
        """A group is gone: the requests that it ran, and those that wait for a model that no other group holds."""
        requests = [r for job in self._running[group] for r in job.requests]
        self._running[group].clear()
        return requests + self.policy.remove(group)

    def restore(self, group: int, now: float) -> None:
        """A group is back at `now`, idle."""
        self._drift[group] = 0.0
        self.policy.restore(group, now)

    def _take(self, batch: Batch) -> Job:
        return self._launch(batch.group, batch.model, batch.requests, batch.finish)

    def _launch(self, group: int, model: int, requests: tuple[int, ...], finish: float) -> Job:
        end = finish - self.policy.overhead - self._drift[group]
        job = Job(len(self.jobs), group, model, requests, end)
        self.jobs.append(job)
        self._running[group].append(job)
        return job

    def _overdue(self, now: float, group: int) -> None:
        running = self._running[group]
        if running and running[0].end + self._drift[group] < now:
            self._shift(group, now - running[0].end - self._drift[group])

    def _shift(self, group: int, seconds: float) -> None:
        self._drift[group] += seconds
        clock = self.policy.clock[group]
        for k, free in enumerate(clock):
            clock[k] = free + seconds
