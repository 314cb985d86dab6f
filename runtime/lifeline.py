"""A child's end of the line to its parent: it ends when the parent does, and says that it lives while it does."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import threading

__all__ = ["BEAT_S", "die_with_parent"]

BEAT_S = 0.5
"""Between two signs of life, seconds."""


def die_with_parent(lifeline: int, parent: int) -> None:
    """End this process when its parent is gone, however it went: the kernel tells, or the lifeline breaks.

    Parameters
    ----------
    lifeline : int
        Descriptor of a pipe or socket whose other end only the parent holds. Where it can be written to, this process
        writes a byte every `BEAT_S`; whoever is stopped does not.
    parent : int
        Its process id.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os._exit(1)

    def watch() -> None:
        while not select.select([lifeline], [], [], BEAT_S)[0]:  # the parent never writes: readable is closed
            with contextlib.suppress(OSError):  # a pipe's reading end, or nobody looks at the signs
                os.write(lifeline, b".")
        os._exit(1)

    os.set_blocking(lifeline, False)
    threading.Thread(target=watch, daemon=True, name="lifeline").start()
