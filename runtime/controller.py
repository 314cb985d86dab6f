"""The asyncio controller: sends requests at their real arrival times, and hears of finishes.

It shares the cores with the devices, so it does next to nothing: a policy decision and one 8-byte write per worker and
job, no polling, garbage collection off. `select` is its selector because it wakes with microseconds' resolution
(epoll counts in milliseconds).
"""

from __future__ import annotations

import asyncio
import gc
import selectors
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import RunError
from ..traces.trace import Trace
from .dispatcher import Dispatcher, Job
from .processes import Fleet, Process
from .protocol import DONE, FREE, JOB, REPORT

__all__ = ["Controller", "Failure", "Progress"]

STALL_S = 60.0
"""A job that is overdue by this much means that its group hangs."""

Progress = Callable[[float, int, int], None]
"""Called about once a second with: seconds into the run, requests decided, requests in all."""


@dataclass(frozen=True)
class Failure:
    """A group that was lost during a run.

    Parameters
    ----------
    group : int
        The group.
    at : float
        Seconds into the run.
    reason : str
        Which worker, and how it ended.
    requests : int
        Requests that failed with it.
    """

    group: int
    at: float
    reason: str
    requests: int

    def __str__(self) -> str:
        return f"group {self.group} lost at {self.at:.2f} s: {self.reason}; {self.requests} requests failed with it"


class Controller:
    """Runs a trace against a fleet.

    Parameters
    ----------
    fleet : Fleet
        Workers that are ready.
    trace : Trace
        The requests.
    dispatcher : Dispatcher
        The decisions.
    pp : sequence of int
        Stages of each group.
    progress : callable, optional
        See `Progress`.

    Attributes
    ----------
    checks : list of float
        Checksum of the answer of each job, in order of job number; NaN until it is there.
    failures : list of Failure
        Groups lost.
    lateness : list of float
        Seconds by which each request was handled after its arrival time.
    """

    def __init__(
        self, fleet: Fleet, trace: Trace, dispatcher: Dispatcher, pp: list[int], progress: Progress | None = None
    ) -> None:
        self.fleet, self.dispatcher, self.pp = fleet, dispatcher, pp
        self.checks: list[float] = []
        self.failures: list[Failure] = []
        self.lateness: list[float] = []
        self.t0 = 0.0
        self._arrival: list[float] = trace.arrival.tolist()
        self._next = 0
        self._progress = progress
        self._groups = [fleet.of_group(g) for g in range(len(pp))]
        self._unsent: dict[Process, bytearray] = {}
        self._unread: dict[Process, bytearray] = {process: bytearray() for process in fleet.processes}

    def run(self, warm_up: list[tuple[int, int, int]]) -> None:
        """Serve the whole trace.

        Parameters
        ----------
        warm_up : list of (group, model, batch)
            Jobs to send through each group before the clock starts.

        Raises
        ------
        RunError
            If a group hangs, or the process is told to terminate.
        KeyboardInterrupt
            On Ctrl-C.
        """
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())) as runner:
            runner.run(self._main(warm_up))

    async def _main(self, warm_up: list[tuple[int, int, int]]) -> None:
        self._loop = asyncio.get_running_loop()
        self._all_done: asyncio.Future[None] = self._loop.create_future()
        terminated = self._handle_termination()
        for process in self.fleet.processes:
            process.pipe.setblocking(False)
            self._loop.add_reader(process.pipe, self._read, process)
        gc.collect()
        gc.freeze()
        gc.disable()
        try:
            await self._warm_up(warm_up)
            self.t0 = self._loop.time() + 0.05
            self._loop.call_at(self.t0 + self._arrival[0], self._arrivals)
            while not self._all_done.done():
                await asyncio.wait([self._all_done], timeout=1.0)
                self._check_progress()
            self._all_done.result()
        except asyncio.CancelledError:
            if terminated:
                raise RunError("run: terminated (SIGTERM); every worker was stopped") from None
            raise
        finally:
            gc.enable()
            gc.unfreeze()
            for process in self.fleet.processes:
                if process.alive:
                    self._loop.remove_reader(process.pipe)
                    process.pipe.setblocking(True)

    def _handle_termination(self) -> list[int]:
        """Have SIGTERM cancel the run; the list that it leaves a mark in."""
        marks: list[int] = []
        task = asyncio.current_task()
        if threading.current_thread() is threading.main_thread() and task is not None:

            def stop() -> None:
                marks.append(signal.SIGTERM)
                task.cancel()

            self._loop.add_signal_handler(signal.SIGTERM, stop)
        return marks

    async def _warm_up(self, jobs: list[tuple[int, int, int]]) -> None:
        """Send jobs with numbers below `STOP` through every group and wait for the answers."""
        self._warm = len(jobs)
        self._warmed: asyncio.Future[None] = self._loop.create_future()
        if not jobs:
            return
        for k, (group, model, batch) in enumerate(jobs):
            self._write(group, JOB.pack(-2 - k, model, batch))
        done, _ = await asyncio.wait([self._warmed], timeout=self.fleet.timeout_s)
        if not done:
            raise RunError(f"run: {self._warm} of {len(jobs)} warm-up jobs unanswered after {self.fleet.timeout_s:g} s")
        self._warmed.result()

    def _now(self) -> float:
        return time.monotonic() - self.t0

    def _arrivals(self) -> None:
        """Handle all requests whose time has come, and set the timer for the next."""
        arrival, n = self._arrival, len(self._arrival)
        now = self._now()
        while self._next < n and arrival[self._next] <= now:
            request = self._next
            self._next += 1
            self.lateness.append(now - arrival[request])
            job = self.dispatcher.arrive(now, request)
            if job is not None:
                self._send(job)
            now = self._now()
        if self._next < n:
            self._loop.call_at(self.t0 + arrival[self._next], self._arrivals)
        self._check_done()

    def _send(self, job: Job) -> None:
        self.checks.append(float("nan"))
        self._write(job.group, JOB.pack(job.number, job.model, len(job.requests)))

    def _write(self, group: int, record: bytes) -> None:
        """Write to every worker of a group; what a full pipe does not take waits for it."""
        for process in self._groups[group]:
            if not process.alive:
                continue
            unsent = self._unsent.get(process)
            if unsent is not None:
                unsent += record
                continue
            try:
                sent = process.pipe.send(record)
            except BlockingIOError:
                sent = 0
            except OSError:
                self._lose(process)
                return
            if sent < len(record):
                self._unsent[process] = bytearray(record[sent:])
                self._loop.add_writer(process.pipe, self._flush, process)

    def _flush(self, process: Process) -> None:
        unsent = self._unsent[process]
        try:
            del unsent[: process.pipe.send(unsent)]
        except BlockingIOError:
            return
        except OSError:
            self._lose(process)
            return
        if not unsent:
            del self._unsent[process]
            self._loop.remove_writer(process.pipe)

    def _read(self, process: Process) -> None:
        """Reports from a worker, or its end."""
        try:
            chunk = process.pipe.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self._lose(process)
            return
        unread = self._unread[process]
        unread += chunk
        whole = len(unread) // REPORT.size * REPORT.size
        records = bytes(unread[:whole])
        del unread[:whole]
        for kind, number, _, end, _, check in REPORT.iter_unpack(records):
            self._report(process.task.group, kind, number, end, check)
        self._check_done()

    def _report(self, group: int, kind: int, number: int, end: float, check: float) -> None:
        if number < 0:
            self._warm -= kind == DONE
            if self._warm == 0 and not self._warmed.done():
                self._warmed.set_result(None)
            return
        now = self._now()
        if kind == DONE:
            self.checks[number] = check
            self.dispatcher.finished(number, end - self.t0, now)
        if kind == FREE or self.pp[group] == 1:
            job = self.dispatcher.freed(now, group)
            if job is not None:
                self._send(job)

    def _check_done(self) -> None:
        if self.t0 and self._next == len(self._arrival) and not self.dispatcher.undecided and not self._all_done.done():
            self._all_done.set_result(None)

    def _lose(self, process: Process) -> None:
        """A worker is gone: its group with it. The others go on."""
        if not process.alive:
            return
        group = process.task.group
        for member in self.fleet.of_group(group):
            self._loop.remove_reader(member.pipe)
            if self._unsent.pop(member, None) is not None:
                self._loop.remove_writer(member.pipe)
        reason = f"{process.name} {process.obituary()}"
        self.fleet.kill_group(group)
        if not self.t0:
            error = RunError(f"run: {reason} during warm-up")
            if not self._warmed.done():
                self._warmed.set_exception(error)
            return
        lost = self.dispatcher.lost(group)
        self.failures.append(Failure(group, self._now(), reason, len(lost)))
        self._check_done()

    def _check_progress(self) -> None:
        now = self._now()
        n = len(self._arrival)
        if self._progress is not None:
            self._progress(now, n - self.dispatcher.undecided, n)
        for group, members in enumerate(self._groups):
            oldest = self.dispatcher.oldest(group)
            if oldest is not None and members[0].alive and now > oldest.end + STALL_S:
                raise RunError(
                    f"run: group {group} hangs: job {oldest.number} was due at {oldest.end:.2f} s and it is {now:.2f} s"
                )
