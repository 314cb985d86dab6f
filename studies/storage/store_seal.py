"""Sealing a store: the same rows in a fresh file, in order, so that its bytes depend on its content alone."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

from .store_file import COLUMNS, create

__all__ = ["seal_into", "view"]


@contextmanager
def seal_into(source: sqlite3.Connection, path: Path) -> Generator[None, None, None]:
    """Write the rows of `source` to a file beside `path`; renamed over it if the block ends well."""
    # one name, so that what a killed run left is written over; its owner holds the store's lock
    beside = path.with_name(f".{path.name}.sealing")
    beside.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(str(beside), isolation_level=None)) as fresh:
            _copy(source, fresh)
        with beside.open("rb") as written:
            os.fsync(written.fileno())
        yield
        beside.chmod(0o644)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _copy(source: sqlite3.Connection, fresh: sqlite3.Connection) -> None:
    fresh.execute("PRAGMA page_size = 4096")
    fresh.execute("PRAGMA journal_mode = OFF")  # nobody sees the file before it is whole
    fresh.execute("PRAGMA synchronous = OFF")
    fresh.execute("BEGIN")
    create(fresh, dict(source.execute("SELECT name, value FROM meta")))
    paths: dict[str, None] = {}
    metrics: dict[str, None] = {}
    insert = f"INSERT INTO points VALUES ({', '.join('?' * COLUMNS)})"
    for row in source.execute("SELECT * FROM points ORDER BY id"):
        fresh.execute(insert, row)
        paths |= dict.fromkeys(json.loads(row[4]))
        metrics |= dict.fromkeys(json.loads(row[6]))
    fresh.execute(view(tuple(paths), tuple(metrics)))
    fresh.execute("COMMIT")
    fresh.execute("PRAGMA journal_mode = DELETE")


def view(paths: tuple[str, ...], metrics: tuple[str, ...]) -> str:
    """The view `results` for people with the sqlite3 shell: a column for each field that varies and each metric."""
    columns = ["id"]
    columns += [_column("inputs", name) for name in paths]
    columns += ["planner", "replication", "status"]
    columns += [_column("metrics", name) for name in metrics]
    columns += ["notes", "decision", "error"]
    return f"CREATE VIEW results AS SELECT {', '.join(columns)} FROM points"


def _column(source: str, name: str) -> str:
    path = '$."{}"'.format(name.replace("'", "''"))
    return "json_extract({}, '{}') AS \"{}\"".format(source, path, name.replace('"', '""'))
