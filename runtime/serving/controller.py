"""The asyncio controller: it sends requests at their real arrival times, and hears of finishes.

It shares the cores with the devices, so it does next to nothing: a policy decision and one 8-byte write per worker and
job, no polling, garbage collection off. `select` is its selector because it wakes with microseconds' resolution
(epoll counts in milliseconds).
"""

from __future__ import annotations

import asyncio
import gc
import math
import selectors
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ...errors import RunError
from ...reprs import Shown
from .breaks import Break, Comeback
from .dispatcher import Job
from .processes import Fleet, Process
from .protocol import DONE, FREE, JOB, READY, REPORT

__all__ = ["Controller", "Decisions", "Failure", "Progress", "Script"]

START_AFTER_S = 0.02
"""Time zero lies this far ahead when a run begins: the event loop is set up by then, so that a request at 0 is on time.
"""

Progress = Callable[[float, int, int], None]
"""Called about once a second with: seconds into the run, requests decided, requests in all."""


class Decisions(Protocol):
    """What the controller asks for jobs: a `Dispatcher`, or the fixed order of a calibration's `Probe`."""

    undecided: int
    """Requests that are neither finished nor rejected nor failed."""

    def arrive(self, now: float, request: int) -> Job | None:
        """A request has arrived; the job to send."""
        ...

    def freed(self, now: float, group: int) -> Job | None:
        """The first stage of a group is free; the job that it takes."""
        ...

    def finished(self, number: int, end: float, finish: float) -> None:
        """A job left its last stage at `end`, its answer was there at `finish`, seconds."""
        ...

    def lost(self, group: int) -> list[int]:
        """A group is gone; the requests that fail with it."""
        ...

    def again(self, now: float, request: int) -> Job | None:
        """A request that was lost is tried anew; the job to send."""
        ...

    def restored(self, now: float, group: int) -> Job | None:
        """A group is back; the job that it takes."""
        ...


@dataclass(frozen=True, repr=False)
class Failure(Shown):
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
        Requests that it held: they failed with it, or were sent anew.
    planned : bool
        Whether it was to be: a `Break`.
    retried : bool
        Whether its requests were sent anew.
    """

    group: int
    at: float
    reason: str
    requests: int
    planned: bool = False
    retried: bool = False

    def __str__(self) -> str:
        fate = "requests were sent anew" if self.retried else "requests failed with it"
        return f"group {self.group} lost at {self.at:.2f} s: {self.reason}; {self.requests} {fate}"


@dataclass(frozen=True, repr=False)
class Script(Shown):
    """What is broken during a run on purpose.

    Parameters
    ----------
    breaks : sequence of Break
        By time.
    retried : bool
        Whether the requests that a broken group held are sent anew, and not lost.
    """

    breaks: Sequence[Break] = ()
    retried: bool = True


class Controller:
    """Sends requests to a fleet at their times, and records what comes back.

    Parameters
    ----------
    fleet : Fleet
        Workers that are ready.
    arrival : list of float
        When each request arrives, seconds, ascending.
    decisions : Decisions
        What is done with it.
    pp : sequence of int
        Stages of each group.
    progress : callable, optional
        See `Progress`.
    script : Script, optional
        What is broken on purpose.

    Attributes
    ----------
    t0 : float
        The run's time zero on the clock of `time.monotonic`, which workers stamp with too.
    answers : dict of int to (float, float, float, float)
        Job number -> start, end (on the clock of `t0`) and CPU seconds of its last stage, first figure of its answer.
    failures : list of Failure
        Groups lost.
    comebacks : list of Comeback
        Groups that came back.
    lateness : list of float
        Seconds by which each request was handled after its arrival time.
    """

    def __init__(
        self,
        fleet: Fleet,
        arrival: list[float],
        decisions: Decisions,
        pp: Sequence[int],
        progress: Progress | None = None,
        script: Script | None = None,
    ) -> None:
        self.fleet, self.decisions, self.pp = fleet, decisions, pp
        self.answers: dict[int, tuple[float, float, float, float]] = {}
        self.failures: list[Failure] = []
        self.comebacks: list[Comeback] = []
        self.lateness: list[float] = []
        self.t0 = 0.0
        self._arrival = arrival
        self._next = 0
        self._progress = progress
        self._groups = [fleet.of_group(g) for g in range(len(pp))]
        self._heard = [0.0] * len(pp)
        self._under_way = [0] * len(pp)
        self._unsent: dict[Process, bytearray] = {}
        self._unread: dict[Process, bytearray] = {process: bytearray() for process in fleet.processes}
        self._script = script or Script()
        self._broken: set[int] = set()
        self._away: set[int] = set()
        self._loading: dict[int, tuple[float, int]] = {}

    def run(self) -> None:
        """Serve all requests.

        Raises
        ------
        RunError
            If a group hangs.
        KeyboardInterrupt, SystemExit
            On Ctrl-C; on SIGTERM (see `termination.Termination`).
        """
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())) as runner:
            runner.run(self._main())

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._all_done: asyncio.Future[None] = self._loop.create_future()
        self._loop.set_exception_handler(self._abort)
        gc.collect()  # a collection in the middle of a run takes milliseconds, and would be blamed on a request
        gc.freeze()
        gc.disable()
        try:
            self.t0 = self._loop.time() + START_AFTER_S
            for process in self.fleet.processes:
                if process.alive:
                    process.pipe.setblocking(False)
                    self._loop.add_reader(process.pipe, self._read, process)
                else:
                    self._forget(process.task.group, "lost in an earlier run of this session")
            self._loop.call_at(self.t0 + self._arrival[0], self._arrivals)
            for one in self._script.breaks:
                self._loop.call_at(self.t0 + one.at_s, self._break, one)
            while not self._all_done.done():
                await asyncio.wait([self._all_done], timeout=1.0)
                self._check_progress()
            self._all_done.result()
        finally:
            gc.enable()
            gc.unfreeze()
            for process in self.fleet.processes:
                if process.alive:
                    self._loop.remove_reader(process.pipe)
                    self._loop.remove_writer(process.pipe)
                    process.pipe.setblocking(True)

    def _abort(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An error in a callback ends the run: it is raised where the run is awaited."""
        error = context.get("exception") or RunError(f"run: {context.get('message')}")
        if not self._all_done.done():
            self._all_done.set_exception(error)

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
            job = self.decisions.arrive(now, request)
            if job is not None:
                self._send(job)
            now = self._now()
        if self._next < n:
            self._loop.call_at(self.t0 + arrival[self._next], self._arrivals)
        self._check_done()

    def _send(self, job: Job) -> None:
        if not self._under_way[job.group]:
            self._heard[job.group] = self._now()
        self._under_way[job.group] += 1
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
        for kind, number, *answer in REPORT.iter_unpack(records):
            if kind == READY:
                self._loaded(process.task.group)
                continue
            self._report(process.task.group, kind, number, tuple(answer))
        self._check_done()

    def _report(self, group: int, kind: int, number: int, answer: tuple[float, float, float, float]) -> None:
        now = self._heard[group] = self._now()
        if kind == DONE:
            self.answers[number] = answer
            self._under_way[group] -= 1
            self.decisions.finished(number, answer[1] - self.t0, now)
        if kind == FREE or self.pp[group] == 1:
            job = self.decisions.freed(now, group)
            if job is not None:
                self._send(job)

    def _check_done(self) -> None:
        if self._next == len(self._arrival) and not self.decisions.undecided and not self._all_done.done():
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
        self._loading.pop(group, None)
        self._forget(group, reason)
        self._check_done()

    def _forget(self, group: int, reason: str) -> None:
        if group in self._away:
            return
        self._away.add(group)
        self._under_way[group] = 0
        lost = self.decisions.lost(group)
        now, planned = max(self._now(), 0.0), group in self._broken
        retried = planned and self._script.retried
        self.failures.append(Failure(group, now, reason, len(lost), planned, retried))
        for request in sorted(lost) if retried else ():  # in order of arrival
            job = self.decisions.again(self._now(), request)
            if job is not None:
                self._send(job)

    def _break(self, one: Break) -> None:
        """Kill workers of a group; that they are gone is heard as of any other's end."""
        self._broken.add(one.group)
        for process in self._groups[one.group]:
            if process.task.rank in one.ranks and process.alive:
                process.popen.kill()
        if one.repaired_s < math.inf:
            self._loop.call_at(self.t0 + one.repaired_s, self._revive, one)

    def _revive(self, one: Break) -> None:
        """Start a broken group again."""
        group = one.group
        for process in self._groups[group]:
            self._lose(process)  # nothing, if its end was heard
        self._groups[group] = started = self.fleet.restart_group(group)
        self._loading[group] = (self._now(), len(started))
        for process in started:
            self._unread[process] = bytearray()
            process.pipe.setblocking(False)
            self._loop.add_reader(process.pipe, self._read, process)

    def _loaded(self, group: int) -> None:
        """A worker of a group that was started again has its weights; with the last one the group is back."""
        since, missing = self._loading[group]
        self._loading[group] = (since, missing - 1)
        if missing > 1:
            return
        del self._loading[group]
        self._broken.discard(group)
        self._away.discard(group)
        now = self._heard[group] = self._now()
        self.comebacks.append(Comeback(group, now, now - since))
        job = self.decisions.restored(now, group)
        if job is not None:
            self._send(job)

    def _check_progress(self) -> None:
        now, n = self._now(), len(self._arrival)
        if self._progress is not None:
            self._progress(now, n - self.decisions.undecided, n)
        for group, heard in enumerate(self._heard):
            if self._under_way[group] and now - heard > self.fleet.answer_s:
                raise RunError(
                    f"run: group {group} hangs: it has work, but said nothing for {now - heard:.0f} s; give more "
                    "(answer_s) if its stages take so long"
                )
