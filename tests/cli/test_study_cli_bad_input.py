"""Every bad input of a study through the command line: exit 2, a line for each error, no traceback, no file touched."""

from __future__ import annotations

import json
import sqlite3
import time

import pytest
from meshwright.cli import run

BASE = """study: 1
name: tiny
cluster: {devices: 2}
models: [a, b]
profile: p.json
workload: {rate: 2, cv: 1, duration: 20, slo: 2}
planners: [selective-replication]
"""


def text(**changes: str) -> str:
    """The base study with other lines, or more of them."""
    lines = {line.partition(":")[0]: line for line in BASE.splitlines()}
    return "\n".join((lines | {key: f"{key}: {value}" for key, value in changes.items()}).values()) + "\n"


FILES = {
    "misspelled field": (text(workload="{rate: 2, cv: 1, duratoin: 20}"), ("s.yaml:6", "duratoin", "'duration'")),
    "misspelled section": (text(worklode="{rate: 1}"), ("s.yaml:8", "worklode", "'workload'")),
    "misspelled axis": (text(axes="{devcies: [1, 2]}"), ("s.yaml:8", "devcies", "'devices'")),
    "axis over a missing field": (text(axes="{cluster.colour: [1, 2]}"), ("s.yaml:8", "cluster.colour")),
    "axis value of the wrong type": (text(axes="{devices: [1, two]}"), ("s.yaml:8", "two")),
    "axis without values": (text(axes="{devices: []}"), ("s.yaml:8", "devices", "value")),
    "no planners": (text(planners="[]"), ("s.yaml:7", "planners")),
    "unknown planner": (text(planners="[alpaserv]"), ("alpaserv", "'alpaserve'")),
    "unknown device": (text(cluster="{devices: 2, device: v100}"), ("v100", "v100-16gb")),
    "missing trace": (text(workload="{trace: missing.csv, slo: 1}"), ("missing.csv",)),
    "missing profile": (text(profile="missing.json"), ("missing.json",)),
    "unknown model": (text(models="[a, c]"), ("c",)),
    "no replications": (text(replications="0"), ("s.yaml:8", "replications", "0")),
    "NaN": (text(workload="{rate: .nan, cv: 1, duration: 20}"), ("s.yaml:6", "rate")),
    "unknown question": (text(question="{find: fewest devcies}"), ("s.yaml:8", "'fewest devices'")),
    "target over 1": (text(question="{find: fewest devices, target: 99}"), ("s.yaml:8", "target", "99")),
    "version of the format": (text(study="7"), ("s.yaml:1", "study", "7")),
    "duplicate key": (BASE + "name: again\n", ("s.yaml:8", "name")),
    "1e5 is text in YAML": (text(workload="{rate: 2, cv: 1, duration: 1e5}"), ("s.yaml:6", "1e5")),
    "no is false in YAML": (text(name="no"), ("s.yaml:2", "no")),
    "a tab": (BASE + "\tseed: 1\n", ("s.yaml:8", "tab")),
    "a tag": (text(name="!!python/object/apply:os.getcwd []"), ("s.yaml:2",)),
    "a list": ("- study\n- 1\n", ("s.yaml",)),
    "empty": ("", ("s.yaml",)),
    "not UTF-8": (b"study: 1\nname: \xff\n", ("s.yaml", "UTF-8")),
    "binary": (bytes(range(256)), ("s.yaml",)),
}


@pytest.mark.parametrize("case", FILES)
def test_bad_files(case: str, world, refused) -> None:
    content, parts = FILES[case]
    world.write("s.yaml", content)
    refused("study s.yaml", *parts)
    refused("study s.yaml --dry-run", *parts)


def test_all_errors_of_a_file_at_once(world, refused) -> None:
    world.write("s.yaml", text(cluster="{devices: 0}", worklode="1", replications="many"))
    refused("study s.yaml", "s.yaml:3", "s.yaml:8", "s.yaml:9", lines=3)


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("study", ("--example",)),
        ("study missing.yaml", ("missing.yaml",)),
        ("study .", (".", "folder")),
        ("study s.yaml --out p.json", ("p.json", "folder")),
        ("study s.yaml --out p.json/below", ("p.json",)),
        ("study s.yaml --executor slurm://here", ("slurm://here", "dask://HOST:PORT")),
        ("study s.yaml --executor dask://", ("dask://",)),
        ("study s.yaml --executor dask://host:port", ("dask://host:port",)),
        ("study s.yaml --workers 0", ("--workers",)),
        ("study s.yaml --replications 0", ("--replications",)),
        ("study s.yaml --planner alpaserv", ("alpaserv", "'alpaserve'")),
        ("study s.yaml --planner missing.py:mine", ("missing.py",)),
        ("study s.yaml --planner alpaserve --planner alpaserve", ("--planner",)),
        ("study --example swep", ("swep", "'sweep'")),
        ("study s.yaml --retry-faild", ("--retry-faild",)),
    ],
)
def test_bad_command_lines(words: str, parts: tuple[str, ...], world, refused) -> None:
    world.write("s.yaml", BASE)
    refused(words, *parts)


def test_a_million_points_ask_for_yes(world, refused, capsys) -> None:
    values = ", ".join(str(0.5 + i / 1000) for i in range(1000))
    world.write("s.yaml", text(axes=f"{{rate: [{values}], cv: [{values}]}}"))
    refused("study s.yaml", "1,000,000 points", "--yes")
    assert run(["study", "s.yaml", "--dry-run"]) == 0, "asking what it would be is no work"
    assert "1,000,000 points" in capsys.readouterr().out


def test_a_scheduler_that_is_not_there_is_said_within_ten_seconds(world, refused) -> None:
    pytest.importorskip("distributed")
    world.write("s.yaml", BASE)
    began = time.monotonic()
    refused("study s.yaml --executor dask://127.0.0.1:9", "dask://127.0.0.1:9")
    assert time.monotonic() - began < 60, "ten seconds, on a machine that may be busy"


class TestStores:
    """A folder that holds something else than this study's results."""

    @pytest.fixture
    def finished(self, world, capsys):
        world.write("s.yaml", BASE)
        assert run(["study", "s.yaml", "--out", "o", "--no-report", "--workers", "1"]) == 0
        capsys.readouterr()
        return world

    def test_of_another_study(self, finished, refused) -> None:
        finished.write("s.yaml", text(workload="{rate: 3, cv: 1, duration: 20, slo: 2}"))
        refused("study s.yaml --out o", "store.sqlite", "another study")
        refused("study s.yaml --out o --replications 2", "store.sqlite", "another study")

    def test_of_other_data(self, finished, refused) -> None:
        def faster(document):
            stage = next(iter(next(iter(document["models"].values()))["stages"].values()))
            stage["latency"]["1"] = [0.3]

        before = json.loads((finished.folder / "p.json").read_text())
        assert before
        finished.changed("p.json", "p.json", lambda d: None)
        assert run(["study", "s.yaml", "--out", "o", "--no-report", "--workers", "1"]) == 0, "the same content"

    def test_of_another_version(self, finished, refused) -> None:
        with sqlite3.connect(finished.folder / "o/store.sqlite") as db:
            names = [row[0] for row in db.execute("SELECT name FROM meta")]
            version = next(n for n in names if "version" in n or "meshwright" in n)
            db.execute("UPDATE meta SET value = '99.0.0' WHERE name = ?", (version,))
        db.close()
        refused("study s.yaml --out o", "store.sqlite", "99.0.0")

    @pytest.mark.parametrize("content", [b"", b"not a database at all", b"SQLite format 3\0" + bytes(200)])
    def test_that_is_no_store(self, content: bytes, finished, refused) -> None:
        (finished.folder / "o/store.sqlite").write_bytes(content)
        if content:
            refused("study s.yaml --out o", "store.sqlite")
        else:
            assert run(["study", "s.yaml", "--out", "o", "--no-report", "--workers", "1"]) == 0, "an empty file is new"

    def test_that_is_a_table_of_somebody_else(self, finished, refused) -> None:
        path = finished.folder / "o/store.sqlite"
        path.unlink()
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE mine (x)")
        db.close()
        refused("study s.yaml --out o", "store.sqlite")
