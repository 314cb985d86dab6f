"""The file of a results store: its tables, what is checked when one is opened, the lock while one is written."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...errors import InputError
from ...files import check_target

__all__ = ["Identity", "Lock", "check", "create", "discard", "missing", "open_file"]

FORMAT = 1
APPLICATION = 0x4D575354
"""SQLite's `application_id` of a results store: "MWST"."""

TABLES = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE points (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, planner TEXT NOT NULL,"
    " replication INTEGER NOT NULL, inputs TEXT NOT NULL, status TEXT NOT NULL, metrics TEXT NOT NULL,"
    " notes TEXT NOT NULL, decision TEXT NOT NULL, error TEXT NOT NULL, provenance TEXT NOT NULL)",
)
COLUMNS = 11
MAGIC = b"SQLite format 3\0"
MEND = "give another --out"


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose results a store holds.

    Parameters
    ----------
    study, digest, text : str
        Name of the study, SHA-256 of what decides its points, and its file as it was first run.
    version : str
        Version of the package: results of two versions are not mixed.
    """

    study: str
    digest: str
    text: str
    version: str

    def meta(self) -> dict[str, str]:
        """What the file says of itself: nothing of time, host or process."""
        return {
            "format": str(FORMAT),
            "meshwright": self.version,
            "study": self.study,
            "study_digest": self.digest,
            "study_text": self.text,
        }


class Lock:
    """One run at a time writes a store: a side file that is locked as long as the run lives, however it ends."""

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(f".{path.name}.lock")
        self._handle: int | None = None
        try:
            import fcntl
        except ImportError:  # no such locks here
            return
        while True:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(handle)
                raise InputError(f"{path}: another run is at it; wait for it to end, or {MEND}") from None
            except OSError:  # a file system without locks
                os.close(handle)
                return
            if self._is_at_path(handle):
                self._handle = handle
                return
            os.close(handle)  # its owner removed it just now

    def _is_at_path(self, handle: int) -> bool:
        try:
            return os.path.samestat(os.fstat(handle), os.stat(self._path))
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Let others in."""
        if self._handle is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._handle)
            self._handle = None


def missing(path: str | Path) -> list[Path]:
    """What opening a store at `path` would make: the file and the folders above it, deepest first."""
    target = Path(path).absolute()
    return [place for place in (target, *target.parents) if not os.path.lexists(place)]


def discard(made: Iterable[Path]) -> None:
    """Remove a store that never held a point, and the folders made for it; a folder with anything else in it stays."""
    for place in made:
        with suppress(OSError):
            place.rmdir() if place.is_dir() else place.unlink(missing_ok=True)


def open_file(path: str | Path) -> Path:
    """Check that a path can hold a store.

    Raises
    ------
    InputError
        If it is a folder, no SQLite file, or cannot be written.
    """
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{target}: expected a results store (got a folder); {MEND}")
    target = check_target(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        head = target.open("rb").read(len(MAGIC)) if target.exists() else b""
    except OSError as error:
        raise InputError(f"{target}: cannot be read: {error.strerror}; {MEND}") from None
    if head and head != MAGIC:
        raise InputError(f"{target}: expected a results store (got a file that is no SQLite database); {MEND}")
    if head and not os.access(target, os.W_OK):
        raise InputError(f"{target}: may not be written; {MEND}")
    return target


def create(connection: sqlite3.Connection, meta: Mapping[str, str]) -> None:
    """Make the tables, inside a transaction of the caller's."""
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")
    for table in TABLES:
        connection.execute(table)
    connection.executemany("INSERT INTO meta VALUES (?, ?)", sorted(meta.items()))


def check(connection: sqlite3.Connection, where: str, identity: Identity) -> bool:
    """Check that a file holds this study's results, made by this version.

    Returns
    -------
    bool
        Whether it holds anything at all; a run that was killed at once leaves an empty database.

    Raises
    ------
    InputError
        Saying what it is instead.
    """

    def refuse(got: str) -> InputError:
        return InputError(f"{where}: expected results of study {identity.study!r} (got {got}); {MEND}")

    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        empty = connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None
        if application != APPLICATION:
            if empty and not application:
                return False
            raise refuse("an SQLite database of another program")
        if version != FORMAT:
            age = "newer" if version > FORMAT else "older"
            raise refuse(f"a store of {age} format {version}; this meshwright reads format {FORMAT}")
        meta = dict(connection.execute("SELECT name, value FROM meta"))
        (health,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        raise refuse(f"a damaged SQLite file: {error}") from None
    if health != "ok":
        raise refuse(f"a damaged SQLite file: {' '.join(str(health).split())}")
    if meta.get("meshwright") != identity.version:
        raise refuse(f"results of meshwright {meta.get('meshwright')}; this is {identity.version}")
    if meta.get("study_digest") != identity.digest:
        name = meta.get("study", "")
        what = f"study {name!r}" if name != identity.study else "an earlier wording of it"
        raise refuse(f"{what}{_difference(meta.get('study_text', ''), identity.text)}")
    return True


def _difference(old: str, new: str) -> str:
    """The first line in which two study files differ."""
    for number, (was, now) in enumerate(zip(old.splitlines(), new.splitlines(), strict=False), start=1):
        if was != now:
            return f": line {number} was {was.strip()!r}, is {now.strip()!r}"
    return ""
