"""The cache folders of compiled kernels, found without importing numba: those that can be read, and the one to write.

`Turn` decides which process compiles a kernel: if several start at once, one compiles and the others load the result.
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
"""Environment variable: set once this process has said that kernels cannot be cached. Its child processes inherit it
and stay silent."""


class Folders(NamedTuple):
    """Cache folders for the kernels of one source file."""

    read: tuple[str, ...]
    """Folders that can only be read."""
    written: str | None
    """The first folder that can be written; `None` if there is none."""
    line: str
    """What the user should know: that kernels are cached elsewhere than asked, or not at all. "" if nothing."""


class Turn:
    """A lock file: one process at a time has the turn, and a process that ends in any way gives it back.

    Parameters
    ----------
    path : str
        The file; it exists as long as a process has the turn.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: IO[bytes] | None = None

    def take(self) -> None:
        """Wait for the turn. Returns at once where there are no file locks: on Windows, and on some network disks."""
        try:
            import fcntl

            # `lockf` and not `flock`: its locks are not inherited, and so end with this process, not with its children.
            self._file = self._file or open(self._path, "ab")  # noqa: SIM115  (it lasts as long as the turn)
            fcntl.lockf(self._file, fcntl.LOCK_EX)
        except (ImportError, OSError):
            self.give()

    def give(self) -> None:
        """Give the turn back; does nothing if it was not taken."""
        if self._file is not None:
            with suppress(OSError):  # who waits for the file that was may compile beside one that makes it anew
                os.unlink(self._path)
            self._file.close()
            self._file = None


def folders(file: str) -> Folders:
    """Cache folders for a source file's kernels, in numba's order: `NUMBA_CACHE_DIR`, ``__pycache__``, user's cache."""
    return _folders(file, os.environ.get("NUMBA_CACHE_DIR", ""))


def check() -> None:
    """Say now if kernels cannot be cached; called before worker processes start, each of which would say it."""
    if line := folders(__file__).line:
        say(line)


def say(line: str) -> None:
    """Print a line on standard error, once; of several worker processes only one prints it."""
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
