"""`Store`: the results of a study in SQLite, one row per point, written as they come."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .outcome import Outcome
from .point import Point

__all__ = ["Row", "Store"]

SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE points (
  id INTEGER PRIMARY KEY,
  key TEXT NOT NULL UNIQUE,
  planner TEXT NOT NULL,
  replication INTEGER NOT NULL,
  inputs TEXT NOT NULL,
  status TEXT NOT NULL,
  metrics TEXT NOT NULL,
  notes TEXT NOT NULL,
  decision TEXT NOT NULL,
  error TEXT NOT NULL,
  provenance TEXT NOT NULL
);
"""

Row = tuple[Point, Outcome]


class Store:
    """A results store."""

    def __init__(self, path: str | Path | None) -> None:
        self.connection = sqlite3.connect(str(path) if path else ":memory:")
        self.connection.executescript(SCHEMA)

    def put(self, point: Point, outcome: Outcome, key: str, provenance: Mapping[str, Any]) -> None:
        """Add a row, in a transaction of its own."""
        row = (
            point.index, key, point.planner, point.replication, json.dumps(dict(point.values)), outcome.status,
            json.dumps(dict(outcome.metrics)), json.dumps(outcome.notes), outcome.decision, outcome.error,
            json.dumps(dict(provenance)),
        )  # fmt: skip
        with self.connection:
            self.connection.execute(f"INSERT INTO points VALUES ({', '.join('?' * len(row))})", row)

    def rows(self) -> Iterator[Row]:
        """All rows, in order of their points."""
        query = (
            "SELECT id, planner, replication, inputs, status, metrics, notes, decision, error FROM points ORDER BY id"
        )
        for i, planner, r, inputs, status, metrics, notes, decision, error in self.connection.execute(query):
            point = Point(i, tuple(json.loads(inputs).items()), planner, r)
            yield point, Outcome(status, json.loads(metrics), tuple(json.loads(notes)), decision, error)

    def close(self) -> None:
        """Close the file."""
        self.connection.close()
