"""Reading and writing the user's files safely.

Only regular files are read. A file is written to a temporary file beside the target, which is then renamed over it, so
that nobody ever sees half of it.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import InputError

__all__ = ["check_target", "readable", "taking_turns", "whole_file", "write_bytes", "write_text"]


def check_target(path: str | Path) -> Path:
    """Refuse a path to which no file can be written. Call it before the work whose result goes there.

    Returns
    -------
    Path
        The file that will be written: `path`, or what it links to.

    Raises
    ------
    InputError
        If `path` is a folder or a device, lies below a file, or may not be written.
    """
    target = Path(path)
    try:
        if target.exists() and not target.is_file():
            what = "a folder" if target.is_dir() else "a device, pipe or socket"
            raise InputError(f"{target}: expected a file to write (got {what}); give the name of a file")
        parent = next(p for p in target.absolute().parents if p.exists())
        if not parent.is_dir():
            raise InputError(f"{target}: expected a folder above it (got the file {parent}); give another path")
        if not os.access(parent, os.W_OK | os.X_OK):
            raise InputError(f"{target}: nothing may be written to {parent}; give another path")
        return target.resolve()
    except (OSError, RuntimeError, ValueError) as error:  # too long a name, links in a circle, a NUL
        if isinstance(error, InputError):
            raise
        raise _cannot(path, error) from None


def readable(path: str | Path) -> Path:
    """Refuse to read anything but a regular file: a device may never end, and a pipe without a writer never begins.

    Call it wherever a file that a user named is opened. Folders and missing files pass: whoever opens them knows what
    was expected, and can say so.

    Returns
    -------
    Path
        The same path.

    Raises
    ------
    InputError
        If it is a device, a pipe or a socket.
    """
    target = Path(path)
    try:
        mode = target.stat().st_mode
    except (OSError, ValueError):
        return target
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
        what = kinds.get(stat.S_IFMT(mode), "a device")
        raise InputError(f"{target}: expected a file (got {what}); write its content to a file and name that")
    return target


@contextmanager
def whole_file(path: str | Path) -> Generator[Path, None, None]:
    """Context manager: a temporary path beside `path`, which is renamed to `path` when the block ends without an error.

    On an error, `path` is left as it was. Missing folders are made, and a link is followed.

    Raises
    ------
    InputError
        If no file can be written there.
    """
    target = check_target(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # In the same folder, because a rename across file systems is a copy. Names end at 255 bytes on most of them.
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.")
    except OSError as error:
        raise _cannot(path, error) from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)  # mkstemp makes files that only their owner may read
        temporary.replace(target)
    except BaseException:
        temporary.unlink()
        raise


@contextmanager
def taking_turns(path: str | Path) -> Generator[None, None, None]:
    """Context manager for reading a file and writing it again: one process at a time is in it, the others wait.

    The lock is on the folder, so that nothing is left beside the file; it ends with the process, however that ends.
    Missing folders are made. Where a system or a file system has no such locks, nobody waits.

    Raises
    ------
    InputError
        If no file can be written there.
    """
    folder = check_target(path).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        import fcntl
    except OSError as error:
        raise _cannot(path, error) from None
    except ImportError:  # no such locks here
        yield
        return
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def write_bytes(path: str | Path, data: bytes) -> Path:
    """Write `data` to `path` so that a reader sees either the old file or the new one, never a part of one.

    Missing folders are made, and a link is followed. Returns the path.

    Raises
    ------
    InputError
        If no file can be written there.
    """
    with whole_file(path) as temporary:
        temporary.write_bytes(data)
    return Path(path)


def write_text(path: str | Path, text: str) -> Path:
    """`write_bytes` for UTF-8 text."""
    return write_bytes(path, text.encode("utf-8"))


def _cannot(path: str | Path, error: Exception) -> InputError:
    why = error.strerror if isinstance(error, OSError) else str(error)
    return InputError(f"{str(path)[:200]}: cannot be written: {why}; give another path")
