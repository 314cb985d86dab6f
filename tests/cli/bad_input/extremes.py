"""Calls with a value that nobody means, each in a process of its own, so that one without an end can be ended."""

from __future__ import annotations

import os
import resource
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from meshwright.cli import run

SOON_S = 60
"""Only so that what hangs fails; nothing here takes a second of work."""
MOST_BYTES = 8 << 30
"""Of address space: what allocates without bound fails here, and takes no memory from others."""


@dataclass(frozen=True)
class Ended:
    """How a call ended: its exit code (negative: the signal that ended it), and what it printed to standard error."""

    code: int
    said: str

    @property
    def complaint(self) -> str:
        """What is wrong with how it ended; nothing, where it did its work or refused in one line."""
        lines = [line for line in self.said.splitlines() if line.startswith("meshwright")]
        if self.code not in (0, 1, 2, 3):
            return f"exit code {self.code}: {self.said[-200:]}"
        if "Traceback" in self.said or "internal error" in self.said:
            return self.said[-200:]
        if self.code and len(lines) != 1:
            return f"{len(lines)} lines: {self.said[-200:]}"
        return ""


def called(words: list[str], folder: Path) -> Ended:
    """Run a command line in a fork."""
    log = folder / "said.log"
    child = os.fork()
    if not child:
        os.setpgid(0, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SOON_S)
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        code = 99
        try:
            code = run(words)
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    return Ended(os.waitstatus_to_exitcode(status), log.read_text())
