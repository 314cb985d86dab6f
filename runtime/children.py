"""Processes that talk to this one over a pipe, print into a file, and end when this one does."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ONE_THREAD", "Child", "Children", "loopback"]

END_S = 5.0
"""How long a process that closed its pipe may take to exit."""

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Environment of a process that stands for one device on one core."""


def loopback() -> dict[str, str]:
    """Environment that keeps torch.distributed on this machine, unless the user says otherwise."""
    return {"GLOO_SOCKET_IFNAME": os.environ.get("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")}


@dataclass(eq=False)
class Child:
    """A process.

    Parameters
    ----------
    popen : subprocess.Popen
        The process.
    pipe : socket
        To it.
    log : Path
        What it printed.
    """

    popen: subprocess.Popen[bytes]
    pipe: socket.socket
    log: Path

    def obituary(self) -> str:
        """How it ended, and the last line that it printed unless somebody killed it, which no line explains."""
        try:
            code = self.popen.wait(END_S)
        except subprocess.TimeoutExpired:
            return "closed its pipe but did not exit"
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        said = self.log.read_text(errors="replace").strip().splitlines()
        return f"{how}: {said[-1]}" if said and code != -signal.SIGKILL else how


class Children:
    """Starts processes, and keeps what they share: a folder, and a lifeline.

    The lifeline is a pipe that nobody writes to: a process that holds its reading end notices when this one is gone
    (see `runtime.worker.die_with_parent`).

    Parameters
    ----------
    name : str
        Of the folder, for who looks into the system's folder of temporary files.
    """

    def __init__(self, name: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix=f"meshwright-{name}-")
        self._lifeline: list[int] = []
        self._born: list[Child] = []

    @property
    def folder(self) -> Path:
        """Where processes meet and leave files; gone after `close`."""
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
        self._lifeline = self._lifeline or list(os.pipe())
        ours, theirs = socket.socketpair()
        log = self.folder / f"{name}.log"
        handed = (theirs.fileno(), self._lifeline[0])
        with log.open("wb") as printed, theirs:
            popen = subprocess.Popen(
                [sys.executable, "-m", module, *map(str, handed), str(os.getpid())],
                stdin=subprocess.DEVNULL, stdout=printed, stderr=printed, env={**os.environ, **environment},
                pass_fds=handed,
                start_new_session=True,  # Ctrl-C in a terminal is this process's to handle
            )  # fmt: skip
        self._born.append(Child(popen, ours, log))
        return self._born[-1]

    def close(self) -> None:
        """End every process, at once, wait until it is gone, and remove the folder."""
        for child in self._born:
            child.pipe.close()
            child.popen.kill()
        for child in self._born:
            child.popen.wait()
        self._born = []
        for descriptor in self._lifeline:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._lifeline = []
        self._folder.cleanup()
