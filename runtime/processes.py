"""The worker processes of a run: started, pinned, awaited, and surely ended."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt

from ..errors import RunError
from .protocol import FLUSH, JOB, READY, REPORT, SPAN_COLUMNS, SPANS, Assignment, receive_exactly, send_json

__all__ = ["Fleet", "Process"]

END_TIMEOUT_S = 20.0


@dataclass(eq=False)
class Process:
    """One worker process.

    Parameters
    ----------
    task : Assignment
        What it is.
    popen : subprocess.Popen
        The process.
    pipe : socket
        To it.
    log : Path
        What it printed.
    """

    task: Assignment
    popen: subprocess.Popen[bytes]
    pipe: socket.socket
    log: Path
    alive: bool = True

    @property
    def name(self) -> str:
        """Group, stage and share, for messages."""
        share = f", share {self.task.share}" if self.task.op > 1 else ""
        return f"worker of group {self.task.group}, stage {self.task.stage}{share}"

    def obituary(self) -> str:
        """How it ended, and the last line that it printed."""
        try:
            code = self.popen.wait(5.0)
        except subprocess.TimeoutExpired:
            return "closed its pipe but did not exit"
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        said = self.log.read_text(errors="replace").strip().splitlines()
        return f"{how}{': ' + said[-1] if said else ''}"


class Fleet:
    """All worker processes of a run; a context manager that leaves none behind.

    A worker also ends by itself when this process is gone: it holds the reading end of a lifeline pipe that nobody
    writes to, and on Linux asks the kernel for a SIGKILL at its parent's death.

    Parameters
    ----------
    tasks : sequence of Assignment
        One worker each. A group's tasks name the same store file, relative to the fleet's folder.
    timeout_s : float
        Longest start-up, seconds.
    """

    def __init__(self, tasks: list[Assignment], timeout_s: float) -> None:
        self.tasks, self.timeout_s = tasks, timeout_s
        self.processes: list[Process] = []
        self._lifeline: list[int] = []
        self._folder = tempfile.TemporaryDirectory(prefix="meshwright-run-")

    def __enter__(self) -> Fleet:
        try:
            self._lifeline = list(os.pipe())
            for number, task in enumerate(self.tasks):
                self.processes.append(self._start(number, task))
            self._await_ready()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self, number: int, task: Assignment) -> Process:
        ours, theirs = socket.socketpair()
        log = Path(self._folder.name) / f"worker-{number}.log"
        environment = os.environ | {
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": os.environ.get("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo"),
        }
        command = [sys.executable, "-m", f"{__package__}.worker"]
        with log.open("wb") as printed:
            popen = subprocess.Popen(
                [*command, str(theirs.fileno()), str(self._lifeline[0]), str(os.getpid())],
                stdin=subprocess.DEVNULL, stdout=printed, stderr=printed, env=environment,
                pass_fds=(theirs.fileno(), self._lifeline[0]),
                start_new_session=True,  # Ctrl-C in a terminal is this process's to handle
            )  # fmt: skip
        theirs.close()
        send_json(ours, task.to_json() | {"store": str(Path(self._folder.name) / task.store)})
        return Process(task, popen, ours, log)

    def _await_ready(self) -> None:
        """Wait until every worker has built its models."""
        deadline = time.monotonic() + self.timeout_s
        waiting = {process.pipe: process for process in self.processes}
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
        for process in self.processes:
            process.pipe.close()
            process.popen.kill()
        for process in self.processes:
            process.popen.wait()
        for descriptor in self._lifeline:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._lifeline = []
        self._folder.cleanup()
