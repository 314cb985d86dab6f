"""`ArbiterProcess`: the caller's end of an arbiter that is a process of its own: started, watched, started again."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType

from ....errors import RunError
from ...children import ending
from ...listening import TOKEN_VARIABLE, bearer_header
from ..documents import read_document, to_text
from ..result import RealSharing
from .serving import Handed, Task, raise_failure

__all__ = ["ArbiterProcess"]

TRY_S = 0.2
"""Between tries to reach an arbiter that is being started again, seconds."""


class ArbiterProcess:
    """A context manager that leaves no process behind.

    Parameters
    ----------
    task : Task
        What to run.
    listener : socket
        On which agents ask.
    folder : Path
        Where task, journal, result and log go.
    restarts : int
        How often it is started again when something kills it.
    token : str, optional
        What it asks of who talks to it.
    """

    def __init__(
        self, task: Task, listener: socket.socket, folder: Path, restarts: int, token: str | None = None
    ) -> None:
        self.token = token
        self.listener, self.folder, self.restarts = listener, folder, restarts
        self.port = int(listener.getsockname()[1])
        self.deaths: list[str] = []
        self.popen: subprocess.Popen[bytes] | None = None
        self._task, self._out = folder / "arbiter-task.json", folder / "arbiter-result.json"
        self._journal, self._log = folder / "arbiter-journal.jsonl", folder / "arbiter.log"
        self._task.write_text(to_text(task))
        self._lifeline: tuple[int, ...] = ()
        self._closed = threading.Event()

    def __enter__(self) -> ArbiterProcess:
        self._lifeline = os.pipe()
        try:
            self.popen = self._start(again=False)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self, *, again: bool) -> subprocess.Popen[bytes]:
        handed = Handed(self.listener.fileno(), self._lifeline[0], os.getpid())
        files = (self._task, self._journal, self._out)
        told = [str(a) for a in (*files, handed.listener, handed.lifeline, handed.parent)]
        with self._log.open("ab") as printed:
            return subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.process", *told, "again" if again else "first"],
                stdin=subprocess.DEVNULL, stdout=printed, stderr=printed, pass_fds=(handed.listener, handed.lifeline),
                env=os.environ | ({} if self.token is None else {TOKEN_VARIABLE: self.token}),
                start_new_session=True,  # Ctrl-C in a terminal is this process's to handle
            )  # fmt: skip

    def wait(self) -> RealSharing:
        """What came out, once it has ended.

        Raises
        ------
        InputError, RunError
            What the arbiter says went wrong; or that it was killed more often than it may be started again.
        """
        try:
            return self._wait()
        finally:
            self._closed.set()
            self.listener.close()  # who still wants to tell it something hears at once that it is gone

    def _wait(self) -> RealSharing:
        while True:
            if self.popen is None:
                raise RunError("run_sharing: the arbiter's process was not started; use it as a context manager")
            try:
                code = self.popen.wait(0.2)  # in pieces, so that Ctrl-C is heard
            except subprocess.TimeoutExpired:
                continue
            if self._out.exists():
                raise_failure(read_document(self._out))
                return RealSharing.load(self._out)
            self.deaths.append(ending(code))
            said = self._log.read_text(errors="replace").strip().splitlines()
            if code >= 0 or len(self.deaths) > self.restarts:
                last = f": {said[-1]}" if said else ""
                raise RunError(f"run_sharing: the arbiter's process ended: {', then '.join(self.deaths)}{last}")
            noted = self._journal.exists() and b"\n" in self._journal.read_bytes()
            if not noted:
                self._journal.unlink(missing_ok=True)
            self.popen = self._start(again=noted)

    def gone(self, app: int, how: str) -> None:
        """Tell the arbiter that an agent's process has ended; while it is started again, it is told later."""
        body = json.dumps({"why": how[:1000]})
        headers = {"Content-Type": "application/json"} | bearer_header(self.token)
        while not self._closed.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            try:
                connection.request("POST", f"/apps/{app}/gone", body, headers)
                connection.getresponse().read()
                return
            except (OSError, http.client.HTTPException):
                self._closed.wait(TRY_S)  # no answer yet, or it has ended
            finally:
                connection.close()

    def close(self) -> None:
        """End it, and wait until it is gone."""
        self._closed.set()
        if self.popen is not None and self.popen.poll() is None:
            self.popen.kill()
        if self.popen is not None:
            self.popen.wait()
        for descriptor in self._lifeline:
            os.close(descriptor)
        self._lifeline = ()
