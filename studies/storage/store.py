"""`Store`: the results of a study in SQLite, one row per point, written as they come."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...errors import InputError, MeshwrightError, RunError
from ...worlds.outcome import Outcome
from ..point import Point
from .store_file import COLUMNS, MEND, Identity, Lock, check, create, open_file
from .store_seal import seal_into, view

__all__ = ["Row", "Store"]

Row = tuple[Point, Outcome]

BUSY_MS = 5000
READ = "SELECT id, planner, replication, inputs, status, metrics, notes, decision, error FROM points"
WRITE = f"INSERT INTO points VALUES ({', '.join('?' * COLUMNS)})"


class Store:
    """A results store, open for one study.

    While a study runs, every point is a transaction of its own in SQLite's write-ahead log, which other programs can
    read at the same time: a process that is killed loses nothing that was written. `seal` then rewrites the file in
    row order, so that its bytes depend on the study alone.

    Parameters
    ----------
    path : path or None
        The file; made with its folders if it is not there. In memory if None.
    identity : Identity
        The study that it belongs to.

    Raises
    ------
    InputError
        If the file is something else, another study's, another version's, damaged, or another run is at it.
    """

    def __init__(self, path: str | Path | None, identity: Identity) -> None:
        self._identity = identity
        self._path = None if path is None else open_file(path)
        try:
            self._lock = None if self._path is None else Lock(self._path)
        except OSError as error:
            raise InputError(f"{self._path}: cannot be locked: {error.strerror}; {MEND}") from None
        self._connection: sqlite3.Connection | None = None
        try:
            self._connect()
            counted = "SELECT count(*), coalesce(sum(status = 'failed'), 0) FROM points"
            self._count, self._failed = self._db.execute(counted).fetchone()
        except BaseException as error:
            self.close()
            if isinstance(error, sqlite3.Error):
                raise self._explain(error) from None
            raise

    @property
    def where(self) -> str:
        """The file, for messages."""
        return "results in memory" if self._path is None else str(self._path)

    @property
    def failed(self) -> int:
        """Rows of points that failed."""
        return self._failed

    def __len__(self) -> int:
        return self._count

    @property
    def _db(self) -> sqlite3.Connection:
        if self._connection is None:
            raise InputError(f"{self.where}: the store is closed; open the session anew")
        return self._connection

    def _connect(self) -> None:
        self._connection = sqlite3.connect(str(self._path or ":memory:"), isolation_level=None)
        self._writing = False
        self._columns: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
        if not check(self._db, self.where, self._identity):
            self._begin_writing()
            self._db.execute("BEGIN IMMEDIATE")
            create(self._db, self._identity.meta())
            self._db.execute(view((), ()))
            self._db.execute("COMMIT")

    def _begin_writing(self) -> None:
        """A commit waits for no disk: the log is synced when it is folded into the file."""
        if not self._writing:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._writing = True

    def put(
        self, point: Point, outcome: Outcome, key: str, provenance: Mapping[str, Any], replace: bool = False
    ) -> None:
        """Add a row, in a transaction of its own.

        Parameters
        ----------
        key : str
            SHA-256 of everything that the outcome follows from.
        provenance : Mapping
            What was read: name -> SHA-256.
        replace : bool
            Put it in place of the row of a point that failed.

        Raises
        ------
        InputError
            If the point is there already.
        RunError
            If the disk is full, or fails.
        """
        row = (
            point.index, key, point.planner, point.replication, dumps(dict(point.values)), outcome.status,
            dumps({name: float(value) for name, value in outcome.metrics.items()}), dumps(outcome.notes),
            outcome.decision, outcome.error, dumps(dict(provenance)),
        )  # fmt: skip
        try:
            self._begin_writing()
            self._db.execute("BEGIN IMMEDIATE")
            if replace:
                was = self._db.execute("DELETE FROM points WHERE id = ? AND status = 'failed'", (point.index,)).rowcount
            else:
                was = 0
            self._db.execute(WRITE, row)
            self._widen(tuple(p for p, _ in point.values), tuple(outcome.metrics))
            self._db.execute("COMMIT")
        except BaseException as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            if isinstance(error, sqlite3.IntegrityError):
                raise InputError(f"{self.where}: point {point.index} is there already; each is told once") from None
            if isinstance(error, sqlite3.Error):
                raise self._explain(error) from None
            raise
        self._count += 1 - was
        self._failed += (outcome.status == "failed") - was

    def _widen(self, paths: tuple[str, ...], metrics: tuple[str, ...]) -> None:
        """Give the view for people a column for every field and metric seen so far."""
        wider = tuple(
            tuple(dict.fromkeys((*had, *new))) for had, new in zip(self._columns, (paths, metrics), strict=True)
        )
        if wider != self._columns:
            if self._columns == ((), ()):  # the first row of this session: what earlier ones hold counts too
                wider = tuple(tuple(dict.fromkeys((*w, *h))) for w, h in zip(wider, self._held_columns(), strict=True))
            self._columns = (wider[0], wider[1])
            self._db.execute("DROP VIEW IF EXISTS results")
            self._db.execute(view(*self._columns))

    def _held_columns(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        keys = "SELECT DISTINCT j.key FROM points, json_each(points.{}) AS j ORDER BY 1"
        paths, metrics = (tuple(k for (k,) in self._db.execute(keys.format(c))) for c in ("inputs", "metrics"))
        return paths, metrics

    def find(self, key: str) -> Row | None:
        """The row of that content, if it is there."""
        row = self._db.execute(f"{READ} WHERE key = ?", (key,)).fetchone()
        return None if row is None else _row(row)

    def holds(self, index: int) -> bool:
        """Whether a row has that index."""
        return self._db.execute("SELECT 1 FROM points WHERE id = ?", (index,)).fetchone() is not None

    def indices(self, start: int = 0, failed: bool = False) -> Iterator[int]:
        """Indices of the rows from `start` on; of those that failed alone if asked."""
        also = " AND status = 'failed'" if failed else ""
        return (i for (i,) in self._db.execute(f"SELECT id FROM points WHERE id >= ?{also} ORDER BY id", (start,)))

    def provenances(self) -> Iterator[dict[str, str]]:
        """What the rows read; each different one once."""
        return (json.loads(p) for (p,) in self._db.execute("SELECT DISTINCT provenance FROM points ORDER BY 1"))

    def rows(self) -> Iterator[Row]:
        """All rows, in order of their points; read as they are asked for."""
        return map(_row, self._db.execute(f"{READ} ORDER BY id"))

    def seal(self, patient: bool = True) -> None:
        """Rewrite the file in row order; a file that is sealed stays as it is, to the byte.

        Parameters
        ----------
        patient : bool
            Wait some seconds where another program has the file open, and raise if it keeps it; else leave it for
            later.

        Raises
        ------
        RunError
            If there is no room; the rows are kept.
        """
        if self._path is None or self._db.execute("PRAGMA journal_mode").fetchone()[0] == "delete":
            return
        self._db.execute(f"PRAGMA busy_timeout = {BUSY_MS if patient else 0}")
        try:
            with seal_into(self._db, self._path):
                # the log is folded into the old file and gone before the new file takes its name
                self._db.execute("PRAGMA journal_mode = DELETE")
                self._db.close()
            self._connect()
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorname", None) == "SQLITE_BUSY" and not patient:
                return
            raise self._explain(error) from None
        except OSError as error:
            raise self._explain(sqlite3.OperationalError(error.strerror)) from None

    def close(self) -> None:
        """Close the file and let others at it."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _explain(self, error: sqlite3.Error) -> MeshwrightError:
        """What a person can do about an error of the file."""
        code = getattr(error, "sqlite_errorname", None) or ""
        kept = f"{getattr(self, '_count', 0)} points kept"
        if code == "SQLITE_FULL" or "space left" in str(error):
            free = "" if self._path is None else f" ({shutil.disk_usage(self._path.parent).free:,} bytes free)"
            return RunError(f"{self.where}: disk full{free}; {kept}; free some space, then the same command goes on")
        if code.startswith("SQLITE_BUSY"):
            return RunError(
                f"{self.where}: another program has it open; {kept}; close it, then the same command goes on"
            )
        if code.startswith("SQLITE_READONLY"):
            return InputError(f"{self.where}: may not be written; {MEND}")
        return RunError(f"{self.where}: {error}; {kept}; once it can be written, the same command goes on")


def dumps(value: Any) -> str:
    """JSON: floats as `repr` gives them, no NaN; names in the order in which they come, which is the study's."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _row(row: tuple[Any, ...]) -> Row:
    i, planner, replication, inputs, status, metrics, notes, decision, error = row
    point = Point(i, tuple(json.loads(inputs).items()), planner, replication)
    return point, Outcome(status, json.loads(metrics), tuple(json.loads(notes)), decision, error)
