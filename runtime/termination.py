"""`Termination`: a SIGTERM while processes run ends this process in order, as Ctrl-C does: nothing of them stays."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

__all__ = ["CODE", "Termination"]

CODE = 128 + signal.SIGTERM
"""Exit code of a process that was told to end: 143, as a shell has it."""


class Termination:
    """From `begin` to `end` a SIGTERM raises SystemExit on the main thread, and says so in one line.

    Not an error of Meshwright's: nothing on the way may take it for the failure of a worker. Where SIGTERM is handled
    already, or on another thread, nothing is changed: then who handles it, or the main thread, ends what runs.

    Parameters
    ----------
    what : str
        What is ended, for the line.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._ours = False

    def __enter__(self) -> Termination:
        self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self) -> None:
        """Handle SIGTERM from now on."""
        if threading.current_thread() is not threading.main_thread():
            return
        if not self._ours and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._told)
            self._ours = True

    def end(self) -> None:
        """Handle it no more: what was to be ended is."""
        if not self._ours or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) in (self._told, signal.SIG_IGN):
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._ours = False

    @contextlib.contextmanager
    def in_loop(self) -> Iterator[None]:
        """The same for the asyncio task that runs: it is cancelled, and SystemExit is raised when it has ended."""
        if not self._ours:
            yield
            return
        loop, task, told = asyncio.get_running_loop(), asyncio.current_task(), list[int]()

        def cancel() -> None:
            if not told and task is not None:
                told.append(CODE)
                self._say()
                task.cancel()

        loop.add_signal_handler(signal.SIGTERM, cancel)
        try:
            yield
        except asyncio.CancelledError:
            if told:
                raise SystemExit(CODE) from None
            raise
        finally:
            loop.remove_signal_handler(signal.SIGTERM)

    def _say(self) -> None:
        print(f"{self.what}: terminated (SIGTERM); its processes are ended", file=sys.stderr, flush=True)

    def _told(self, number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # told twice, it ends no sooner, but would leave something
        self._say()
        raise SystemExit(CODE)
