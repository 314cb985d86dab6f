"""Files of the user's: read only where they are files; written whole, beside the target, then renamed over it."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from .errors import InputError

__all__ = ["check_target", "readable", "whole_file", "write_bytes", "write_text"]


def check_target(path: str | Path) -> Path:
    """Refuse a path that no file can be written to; asked before the work whose result goes there.

    Returns
    -------
    Path
        The file that will be written: `path`, or what it links to.

    Raises
    ------
    InputError
        If `path` is a folder or a device, lies below a file, or nothing may be written there.
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
    """Refuse to read what is no file: a device may have no end, and a pipe that nobody writes to never begins.

    Asked wherever a file that a user names is opened. A folder, or nothing at all, is left to whoever opens it, who
    knows what was expected.

    Returns
    -------
    Path
        `path`.

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
    """A temporary path beside `path`, to be written piece by piece; renamed to `path` if the block ends well.

    If it does not, `path` is left as it was. Folders that are missing are made; a link is followed.

    Raises
    ------
    InputError
        If no file can be written there.
    """
    target = check_target(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.")
    except OSError as error:
        raise _cannot(path, error) from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(target)
    except BaseException:
        temporary.unlink()
        raise


def write_bytes(path: str | Path, data: bytes) -> Path:
    """Write `data` to `path` so that a reader sees the old file or the new one, never a half of either.

    Folders that are missing are made; a link is followed. Returns the path.

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
