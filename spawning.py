"""Checks for library calls that start Python processes: does the script have ``if __name__ == "__main__":``?

A started process first runs the script that started it once more. Without the guard, that second run reaches the same
call and would start processes of its own, and the first run would wait for ever. Here the second run ends at once, and
the first one says why.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from functools import lru_cache

from . import kept
from .errors import InputError, RunError

__all__ = ["MAX_PROCESSES", "check_can_start", "check_workers"]

MAX_PROCESSES = 1024
"""Most worker processes on one machine. A guess: each is a Python process of its own, and more are probably a slip."""

UNGUARDED = 91
"""Exit code of a process whose second run of the script reached the same call. Python and shells do not use this
code."""


def check_workers(workers: object) -> int:
    """Refuse a number of worker processes that is not an integer from 1 to `MAX_PROCESSES`.

    Raises
    ------
    InputError
        If it is refused; the message names the limit.
    """
    if isinstance(workers, bool) or not isinstance(workers, int) or not 1 <= workers <= MAX_PROCESSES:
        raise InputError(f"workers: expected a whole number of processes, 1 … {MAX_PROCESSES} (got {workers!r})")
    return workers


def check_can_start(what: str) -> None:
    """Make sure that processes can be started from this script. Call it before a library call starts any.

    It starts one process that does nothing, once in the life of this process. The trial is needed because Python hands
    a new process its work through a pipe, and waits for ever if the process ends before it has read that.

    Parameters
    ----------
    what : str
        Name of the call that is about to start them, for the message.

    Raises
    ------
    InputError
        If the script that runs has no main guard.
    RunError
        If a process cannot be started for another reason.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        os._exit(UNGUARDED)  # this is the second run of the script; silently, for the first one says why
    code = _tried()
    if code == UNGUARDED:
        raise InputError(
            f"{what}: the processes that it starts run this script anew, which would start them again; put what the "
            'script does under: if __name__ == "__main__":'
        )
    if code:
        raise RunError(
            f"{what}: processes cannot be started: one that does nothing ended with exit code {code}; it runs the main "
            "script first, see what that raises"
        )
    kept.check()  # where kernels cannot be kept this process says it, not every one that it starts


@lru_cache(maxsize=1)
def _tried() -> int:
    """Exit code of a process that has nothing to do; 0 without a trial if there is no script to run again."""
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    if main is not None and file is not None and not os.path.exists(file):
        main.__file__ = file = None  # "<stdin>": a process would look for a script of that name
    if file is None and getattr(main, "__spec__", None) is None:
        return 0  # of -c, standard input, a terminal or a notebook: there is no script to run anew
    process = multiprocessing.get_context("spawn").Process(target=_nothing)
    process.start()
    process.join()
    return process.exitcode or 0


def _nothing() -> None:
    """The work of the trial process."""
