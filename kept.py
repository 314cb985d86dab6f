"""Where compiled kernels are kept, found without numba: the folders that can be read, the one that can be written.

And whose turn it is to compile one: of processes that start at once, one does, and the others find what it kept.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import sys
import tempfile
from contextlib import suppress
from functools import cache
from typing import IO, NamedTuple

from .compiling import TELLS

__all__ = ["SAID", "Folders", "Turn", "check", "folders", "say"]

SAID = "MESHWRIGHT_SAID_CACHE"
"""Environment variable: set where it was said that nothing can be kept; processes started from here stay silent."""


class Folders(NamedTuple):
    """Folders for what is compiled of one file."""

    read: tuple[str, ...]
    """Those that can only be read."""
    written: str | None
    """The first that can be written; `None` if there is none."""
    line: str
    """What a person should know: where else it is kept, or that it is not. "" if nothing."""


class Turn:
    """One process at a time has the turn of a file; a process that ends, however it does, gives it back.

    Parameters
    ----------
    path : str
        The file, which is there as long as somebody has the turn.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: IO[bytes] | None = None

    def take(self) -> None:
        """Wait for the turn; at once where there are no such turns: on Windows, on a disk that knows no locks."""
        try:
            import fcntl

            # Of this process alone: a lock that processes started meanwhile had too would last as long as they do.
            self._file = self._file or open(self._path, "ab")  # noqa: SIM115  (it lasts as long as the turn)
            fcntl.lockf(self._file, fcntl.LOCK_EX)
        except (ImportError, OSError):
            self.give()

    def give(self) -> None:
        """Give it back; nothing where it was not taken."""
        if self._file is not None:
            with suppress(OSError):  # who waits for the file that was may compile beside one that makes it anew
                os.unlink(self._path)
            self._file.close()
            self._file = None


def folders(file: str) -> Folders:
    """Folders for a file's kernels, in numba's order: `NUMBA_CACHE_DIR`, ``__pycache__``, the user's cache."""
    return _folders(file, os.environ.get("NUMBA_CACHE_DIR", ""))


def check() -> None:
    """Say it now if nothing can be kept: before processes start of which each would."""
    if line := folders(__file__).line:
        say(line)


def say(line: str) -> None:
    """Print a line on standard error, once; of worker processes one does."""
    worker = multiprocessing.parent_process() is not None
    first = "1" if multiprocessing.current_process().name.endswith("-1") else "0"
    if SAID not in os.environ and not (worker and os.environ.get(TELLS, first) != "1"):
        print(line, file=sys.stderr, flush=True)
    os.environ[SAID] = "1"


@cache
def _folders(file: str, told: str) -> Folders:
    folder = os.path.dirname(os.path.abspath(file))
    own = f"{os.path.basename(folder)}_{hashlib.sha1(folder.encode(), usedforsecurity=False).hexdigest()}"
    tried = [os.path.join(told, own)] if told else []
    if os.path.exists(file):  # not where the package is read from an archive
        tried.append(os.path.join(folder, "__pycache__"))
    home = os.path.expanduser("~")
    if os.path.isabs(home):  # without a home `~` would be a folder here
        users = os.path.join(home, *(("Library", "Caches") if sys.platform == "darwin" else (".cache",)))
        users = os.environ.get("XDG_CACHE_HOME") or users
        tried.append(os.path.join(users, "meshwright", own))
    read: list[str] = []
    why = ""
    for path in tried:
        reason = _unwritable(path)
        if not reason:
            return Folders(tuple(read), path, f"{why}: compiled kernels are kept in {path}" if why else "")
        read += [path] if os.path.isdir(path) else []
        why = why or (f"NUMBA_CACHE_DIR={told} cannot be written ({reason})" if told else "")
    why = why or "no folder for compiled kernels can be written"
    return Folders(tuple(read), None, f"{why}: kernels are compiled in every run; name a folder in NUMBA_CACHE_DIR")


@cache
def _unwritable(path: str) -> str:
    """Why a folder cannot be written; "" if it can."""
    try:
        os.makedirs(path, exist_ok=True)
        tempfile.TemporaryFile(dir=path).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""
