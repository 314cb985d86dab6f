"""Processes that talk to this one over a pipe, print into a file, and end when this one does.

Each says every half second that it lives. One that has said nothing for `Children.silence_s` is stopped, or hangs with
all of its threads: it is killed, and whoever waits for it hears of its end as of any other.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ..errors import InputError
from .lifeline import BEAT_S
from .termination import Termination

__all__ = ["ONE_THREAD", "SILENCE_S", "Child", "Children", "Started", "ending", "loopback", "started"]

END_S = 5.0
"""How long a process that closed its pipe may take to exit."""

SILENCE_S = 10.0
"""Unless told otherwise, a process that gives no sign of life for so long is ended."""

START_S = 120.0
"""The same until all are `ready`: what a process loads may hold its interpreter for long where the disk is slow."""

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Environment of a process that stands for one device on one core."""


class Started(Protocol):
    """What is asked of a process once it runs; as of `subprocess.Popen`."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def kill(self) -> None: ...


def loopback() -> dict[str, str]:
    """Environment that keeps torch.distributed on this machine, unless the user says otherwise."""
    return {"GLOO_SOCKET_IFNAME": os.environ.get("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")}


def ending(code: int) -> str:
    """How a process ended, by the exit code that `subprocess` has for it."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal has no name
        return f"killed by signal {-code}"


def started(module: str, handed: tuple[int, int], printed: int, environment: Mapping[str, str]) -> Started:
    """A process of its own that runs a module, with two descriptors of this one and this one's id as arguments."""
    return subprocess.Popen(
        [sys.executable, "-m", module, *map(str, handed), str(os.getpid())],
        stdin=subprocess.DEVNULL, stdout=printed, stderr=printed, env=environment,
        pass_fds=handed,
        start_new_session=True,  # Ctrl-C in a terminal is this process's to handle
    )  # fmt: skip


@dataclass(eq=False)
class Child:
    """A process.

    Parameters
    ----------
    popen : Started
        The process.
    pipe : socket
        To it.
    log : Path
        What it printed.
    life : socket
        On which it says that it lives.
    verdict : list of str
        Why it was ended, if it was for its silence.
    """

    popen: Started
    pipe: socket.socket
    log: Path
    life: socket.socket
    verdict: list[str]

    def obituary(self) -> str:
        """How it ended, and the last line that it printed unless somebody killed it, which no line explains."""
        if self.verdict:
            return self.verdict[0]
        try:
            code = self.popen.wait(END_S)
        except subprocess.TimeoutExpired:
            return "closed its pipe but did not exit"
        how = ending(code)
        said = self.log.read_text(errors="replace").strip().splitlines()
        return f"{how}: {said[-1]}" if said and code != -signal.SIGKILL else how

    def beats(self) -> bool:
        """Whether it gave a sign of life since it was asked last."""
        heard = False
        while True:
            try:
                said = self.life.recv(4096)
            except OSError:  # none is there, or it is closed
                return heard
            if not said:
                return heard
            heard = True

    def stands(self) -> bool:
        """Whether the system says that it is stopped (SIGSTOP, a debugger)."""
        try:
            return Path(f"/proc/{self.popen.pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
        except (OSError, IndexError):  # not Linux, or gone
            return False


class Children:
    """Starts processes, and keeps what they share: a folder, and lines on which they hear that this one is gone.

    From the first process to `close`, a SIGTERM ends this process in order (see `Termination`).

    Parameters
    ----------
    name : str
        Of the folder, for who looks into the system's folder of temporary files.
    silence_s : float
        A process that gives no sign of life for so long is killed; infinite: none is.

    Raises
    ------
    InputError
        If `silence_s` is shorter than four signs of life.
    """

    def __init__(self, name: str, silence_s: float = SILENCE_S) -> None:
        if math.isnan(silence_s) or silence_s < 4 * BEAT_S:
            raise InputError(f"run: silence_s: expected seconds >= {4 * BEAT_S:g} (got {silence_s!r})")
        self.name, self.silence_s = name, silence_s
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._born: list[Child] = []
        self._termination = Termination("run")
        self._closed = threading.Event()
        self._watcher: threading.Thread | None = None
        self._ready_at = math.inf

    def ready(self) -> None:
        """All processes are up: from now on they are expected to live without long pauses."""
        self._ready_at = time.monotonic()

    @property
    def folder(self) -> Path:
        """Where processes meet and leave files; gone after `close`."""
        if self._folder is None:
            self._termination.begin()
            self._folder = tempfile.TemporaryDirectory(prefix=f"meshwright-{self.name}-")
        return Path(self._folder.name)

    def start(self, module: str, name: str, environment: Mapping[str, str]) -> Child:
        """Run a module in a process of its own.

        Its arguments are the descriptors of its pipe and of the lifeline, and the id of this process.

        Parameters
        ----------
        module : str
            As of ``python -m``.
        name : str
            Of its log.
        environment : mapping
            What is set or changed in this process's own.
        """
        log = self.folder / f"{name}.log"
        ours, theirs = socket.socketpair()
        life, lifeline = socket.socketpair()
        life.setblocking(False)
        handed = (theirs.fileno(), lifeline.fileno())
        try:
            with log.open("wb") as printed, theirs, lifeline:
                popen = started(module, handed, printed.fileno(), {**os.environ, **environment})
        except BaseException:
            ours.close()
            life.close()
            raise
        child = Child(popen, ours, log, life, [])
        self._born.append(child)
        if self._watcher is None and math.isfinite(self.silence_s):
            self._closed = threading.Event()
            self._watcher = threading.Thread(
                target=self._watch, args=(self._closed,), daemon=True, name="signs of life"
            )
            self._watcher.start()
        return child

    def _watch(self, closed: threading.Event) -> None:
        """Kill whoever has been silent for too long."""
        heard, last = dict[Child, float](), time.monotonic()
        while not closed.wait(BEAT_S):
            now = time.monotonic()
            if now - last > self.silence_s / 2:  # this process itself was stopped: nobody is judged by that
                heard.clear()
            last = now
            for child in list(self._born):
                if child.beats():
                    heard[child] = now
                silent_s = now - heard.setdefault(child, now)
                if silent_s <= self.silence_s or child.verdict or child.popen.poll() is not None:
                    continue
                if now - self._ready_at > self.silence_s or silent_s > START_S or child.stands():
                    what = "is stopped" if child.stands() else "hangs"
                    child.verdict.append(f"{what}: no sign of life for {silent_s:.0f} s; it was ended")
                    child.popen.kill()

    def close(self) -> None:
        """End every process, at once, wait until it is gone, and remove the folder."""
        self._closed.set()
        if self._watcher is not None and self._watcher is not threading.current_thread():
            self._watcher.join()
        self._watcher = None
        for child in self._born:
            child.pipe.close()
            child.popen.kill()
        for child in self._born:
            child.popen.wait()
            child.life.close()
        self._born = []
        if self._folder is not None:
            with contextlib.suppress(FileNotFoundError):
                self._folder.cleanup()
            self._folder = None
        self._termination.end()
