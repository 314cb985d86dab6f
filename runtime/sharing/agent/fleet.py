"""`AgentFleet`: the processes of all agents, started, watched, and surely ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from ....errors import RunError
from ....simulator.sharing.world import SharingWorld
from ...children import ONE_THREAD
from ...listening import TOKEN_VARIABLE
from ..documents import to_document
from ..options import RunOptions

__all__ = ["AgentFleet"]

START_S = 60.0
"""How long the agents may take to start, seconds: importing torch takes some ten on a machine that is busy. A guess."""


class AgentFleet:
    """One process for each of some apps; a context manager that leaves none behind.

    Parameters
    ----------
    world : SharingWorld
        The apps.
    options : RunOptions
        How they are run.
    folder : Path
        Where checkpoints and logs go.
    port : int
        Where the arbiter listens.
    gone : callable
        ``gone(app, how)``, called on a thread of its own when an agent's process has ended.
    apps : sequence of int, optional
        Which apps to start agents for; by default all.
    token : str, optional
        What the arbiter asks of agents.
    """

    def __init__(
        self, world: SharingWorld, options: RunOptions, folder: Path, port: int, gone: Callable[[int, str], None],
        apps: Sequence[int] | None = None, token: str | None = None,
    ) -> None:  # fmt: skip
        self.token = token
        self.folder, self.gone = folder, gone
        self.apps = tuple(range(len(world.apps)) if apps is None else apps)
        task = {
            "world": to_document(world), "options": to_document(options), "folder": str(folder), "port": port,
            "apps": self.apps,
        }  # fmt: skip
        self.task = folder / "task.json"
        self.task.write_text(json.dumps(task))
        self.pids: dict[int, int] = {}
        self._lifeline: list[int] = []
        self._nursery: subprocess.Popen[bytes] | None = None
        self._pipe: socket.socket | None = None
        self._reader: threading.Thread | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> AgentFleet:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self) -> None:
        self._pipe, theirs = socket.socketpair()
        self._lifeline = list(os.pipe())
        log = self.folder / "nursery.log"
        secret = {} if self.token is None else {TOKEN_VARIABLE: self.token}
        environment = os.environ | ONE_THREAD | secret
        with log.open("wb") as printed:
            self._nursery = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.nursery", str(theirs.fileno()), str(self._lifeline[0]),
                 str(os.getpid()), str(self.task)],
                stdin=subprocess.DEVNULL, stdout=printed, stderr=printed, env=environment,
                pass_fds=(theirs.fileno(), self._lifeline[0]),
                start_new_session=True,  # Ctrl-C in a terminal is this process's to handle
            )  # fmt: skip
        theirs.close()
        self._pipe.settimeout(START_S)
        lines = self._pipe.makefile("rb")
        try:
            first = lines.readline()
        except TimeoutError:
            raise RunError(f"run_sharing: agents not started after {START_S:g} s") from None
        if not first:
            said = log.read_text(errors="replace").strip().splitlines()
            raise RunError(f"run_sharing: agents could not be started: {said[-1] if said else 'no word'}")
        self._pipe.settimeout(None)
        self.pids = {int(app): pid for app, pid in json.loads(first)["pids"].items()}
        self._reader = threading.Thread(target=self._watch, args=(lines,), daemon=True, name="agents")
        self._reader.start()

    def _watch(self, lines: BinaryIO) -> None:
        for line in lines:
            told = json.loads(line)
            with self._lock:
                self.pids.pop(told["app"], None)
            self.gone(told["app"], told["how"])
        with self._lock:
            left, self.pids = list(self.pids), {}
        for app in left:
            self.gone(app, "its parent process is gone")

    def end(self, app: int) -> None:
        """End an agent at once."""
        with self._lock, contextlib.suppress(ProcessLookupError):
            if app in self.pids:
                os.kill(self.pids[app], signal.SIGKILL)

    def close(self) -> None:
        """End every agent, at once, and wait until all are gone."""
        for app in list(self.pids):
            self.end(app)
        if self._nursery is not None:
            try:
                self._nursery.wait(5.0)  # it ends with its last agent
            except subprocess.TimeoutExpired:
                self._nursery.kill()
                self._nursery.wait()
        if self._reader is not None:
            self._reader.join(5.0)  # it ends when its pipe does; a daemon, so a stuck one is left behind
        if self._pipe is not None:
            self._pipe.close()
        for descriptor in self._lifeline:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._lifeline = []
