"""A line of progress on standard error for work that takes more than two seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..compiling import compiling_s, said, watched

__all__ = ["status"]

QUIET_S = 2.0
EVERY_S = {True: 0.1, False: 5.0}
"""Seconds between two lines, on a terminal and elsewhere."""
LOOK_S = 0.1
"""Seconds between two looks at whether kernels are being compiled, about which the work cannot say anything."""


@contextmanager
def status(label: str) -> Iterator[Callable[[str], None]]:
    """A callback that shows what is being done: one line, overwritten, on a terminal; elsewhere a line now and then.

    While kernels are compiled, which keeps the work from saying anything, the line says that.
    """
    terminal = sys.stderr.isatty()
    begun = shown = time.monotonic()
    wrote = told = False
    lock, over = threading.Lock(), threading.Event()

    def say(what: str) -> None:
        nonlocal shown, wrote
        with lock:
            now = time.monotonic()
            if now - begun < QUIET_S or (wrote and now - shown < EVERY_S[terminal]):
                return
            shown, wrote = now, True
            write(f"{label}: {what} ({now - begun:.0f} s)")

    def write(line: str) -> None:
        print(f"\r\x1b[2K{line[:118]}" if terminal else line, end="" if terminal else "\n", file=sys.stderr, flush=True)

    def look() -> None:
        nonlocal told, shown, wrote
        while not over.wait(LOOK_S):
            if compiling_s() <= QUIET_S:
                continue
            if terminal or told:
                say(said())
                continue
            with lock:  # at once, though another line has just been written
                told = wrote = True
                shown = time.monotonic()
                write(f"{label}: {said()} ({shown - begun:.0f} s)")

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        with watched():
            yield say
    finally:
        over.set()
        watcher.join()
        if terminal and wrote:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)
