"""The worker processes of a run: how they are started, pinned to cores, awaited, and surely ended."""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import TracebackType

import numpy as np
import numpy.typing as npt

from ...errors import RunError
from ..children import ONE_THREAD, SILENCE_S, Child, Children, loopback
from .protocol import FLUSH, JOB, READY, REPORT, SPAN_COLUMNS, SPANS, Assignment, receive_exactly, send_json

__all__ = ["Fleet", "Process"]

END_TIMEOUT_S = 20.0
"""How long a worker may take to send its spans after the last job, seconds. A guess, far above what it takes."""


@dataclass(eq=False)
class Process(Child):
    """One worker process.

    Parameters
    ----------
    popen, pipe, log, life, verdict
        As of a `Child`.
    task : Assignment
        What it is.
    """

    task: Assignment
    alive: bool = True

    @property
    def name(self) -> str:
        """Group, stage and share, for messages."""
        share = f", share {self.task.share}" if self.task.op > 1 else ""
        return f"worker of group {self.task.group}, stage {self.task.stage}{share}"


class Fleet:
    """All worker processes of a run; a context manager that leaves none behind.

    A worker also ends by itself when this process is gone: it holds the end of a lifeline that breaks then, and on
    Linux asks the kernel for a SIGKILL at its parent's death.

    Parameters
    ----------
    tasks : sequence of Assignment
        One worker each. A group's tasks name the same store file, relative to the fleet's folder.
    timeout_s : float
        Longest start-up, seconds.
    silence_s : float
        A worker that gives no sign of life for so long (it is stopped, or hangs) is ended, seconds.
    answer_s : float, optional
        A group that has work, and says nothing of it for so long, hangs; `timeout_s` if left out.
    """

    def __init__(
        self, tasks: list[Assignment], timeout_s: float, silence_s: float = SILENCE_S, answer_s: float | None = None
    ) -> None:
        self.tasks, self.timeout_s = tasks, timeout_s
        self.answer_s = timeout_s if answer_s is None else answer_s
        self.processes: list[Process] = []
        self._restarts = 0
        self._children = Children("run", silence_s)

    def __enter__(self) -> Fleet:
        try:
            for number, task in enumerate(self.tasks):
                self.processes.append(self._start(number, task))
            self._await_ready(self.processes)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self, number: int, task: Assignment) -> Process:
        child = self._children.start(f"{__package__}.worker", f"worker-{number}", ONE_THREAD | loopback())
        with contextlib.suppress(OSError):  # its end is noticed when it is awaited, with its last words
            send_json(child.pipe, task.to_json() | {"store": str(self._children.folder / task.store)})
        return Process(**vars(child), task=task)

    def _await_ready(self, processes: Sequence[Process]) -> None:
        """Wait until workers have built their models."""
        deadline = time.monotonic() + self.timeout_s
        waiting = {process.pipe: process for process in processes}
        while waiting:
            ready, _, _ = select.select(list(waiting), [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                names = ", ".join(process.name for process in waiting.values())
                raise RunError(
                    f"run: not ready after {self.timeout_s:g} s: {names}; give more time (startup_timeout_s) or "
                    "fewer or smaller models"
                )
            for pipe in ready:
                process = waiting.pop(pipe)
                try:
                    kind = REPORT.unpack(receive_exactly(pipe, REPORT.size))[0]
                except (RunError, OSError):
                    raise RunError(f"run: {process.name} died at start-up: {process.obituary()}") from None
                if kind != READY:
                    raise RunError(f"run: {process.name} sent {kind} before it was ready")
        self._children.ready()

    def of_group(self, group: int) -> list[Process]:
        """The workers of a group, in order of rank."""
        return [process for process in self.processes if process.task.group == group]

    def kill_group(self, group: int) -> None:
        """End a group whose work is lost."""
        for process in self.of_group(group):
            process.alive = False
            process.popen.kill()
            process.pipe.close()
        for process in self.of_group(group):
            process.popen.wait()

    def restart_group(self, group: int) -> list[Process]:
        """Start a group that is gone again; each worker reports `READY` when it has its weights."""
        gone = self.of_group(group)
        self._restarts += 1
        self.processes = [process for process in self.processes if process not in gone]
        for process in gone:
            # Where the group's processes found each other before, they would find the dead.
            task = replace(process.task, store=f"store-{group}-{self._restarts}")
            self.processes.append(self._start(len(self.tasks) + self._restarts * len(gone) + task.rank, task))
        return self.of_group(group)

    def rehearse_restart(self, group: int) -> float:
        """End a group, start it again, and wait for its weights: seconds from its start."""
        self.kill_group(group)
        begun = time.monotonic()
        self._await_ready(self.restart_group(group))
        return time.monotonic() - begun

    def collect_spans(self) -> dict[Process, npt.NDArray[np.float64]]:
        """The spans that each living worker recorded since the last time: `protocol.SPAN_COLUMNS`, shape (n, 4)."""
        living = [process for process in self.processes if process.alive]
        spans: dict[Process, npt.NDArray[np.float64]] = {}
        for process in living:
            process.pipe.settimeout(END_TIMEOUT_S)
            try:
                process.pipe.sendall(JOB.pack(FLUSH, 0, 0))
            except OSError:
                raise RunError(f"run: {process.name} died at the end: {process.obituary()}") from None
        for process in living:
            try:
                kind = n = -1
                while kind != SPANS:
                    kind, n = REPORT.unpack(receive_exactly(process.pipe, REPORT.size))[:2]
                body = receive_exactly(process.pipe, n * len(SPAN_COLUMNS) * 8)
            except TimeoutError:
                raise RunError(f"run: {process.name} gave no spans within {END_TIMEOUT_S:g} s") from None
            except (RunError, OSError):
                raise RunError(f"run: {process.name} died at the end: {process.obituary()}") from None
            process.pipe.settimeout(None)
            spans[process] = np.frombuffer(body).reshape(n, len(SPAN_COLUMNS))
        return spans

    def close(self) -> None:
        """End every worker, at once, and wait until it is gone."""
        self._children.close()
