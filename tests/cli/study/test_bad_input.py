"""Every bad input of a study through the command line: exit 2, a line for each error, no traceback, no file touched."""

from __future__ import annotations

import sqlite3

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
    "unknown device": (text(cluster="{devices: 2, device: v100}"), ("cluster.device", "'v100'", "v100-")),
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
        ("study .", (".", "directory")),
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


def test_a_scheduler_that_is_not_there_is_said(world, refused) -> None:
    pytest.importorskip("distributed")
    world.write("s.yaml", BASE)
    refused("study s.yaml --executor dask://127.0.0.1:9", "dask://127.0.0.1:9")


class TestStores:
    """A folder that holds something else than this study's results: nothing in it changes."""

    COMMAND = "study s.yaml --out o --no-report --workers 1"

    @pytest.fixture
    def store(self, world, capsys):
        world.write("s.yaml", BASE)
        assert run(self.COMMAND.split()) == 0
        capsys.readouterr()
        return world.folder / "o/store.sqlite"

    @pytest.fixture
    def kept(self, store, capsys):
        """Check that the command is refused and the folder keeps what it had."""

        def check(*parts: str, words: str = "") -> None:
            before = {p.name: p.read_bytes() for p in store.parent.iterdir()}
            code = run(f"{self.COMMAND} {words}".split())
            out, err = capsys.readouterr()
            assert (code, out, err.count("\n")) == (2, "", 1), err
            assert err.startswith("meshwright: ")
            for part in ("store.sqlite", "--out", *parts):
                assert part in err
            assert {p.name: p.read_bytes() for p in store.parent.iterdir()} == before

        return check

    def test_of_another_study(self, store, kept, world) -> None:
        world.write("s.yaml", text(workload="{rate: 3, cv: 1, duration: 20, slo: 2}"))
        kept("tiny", "rate: 3")

    def test_of_other_replications(self, kept) -> None:
        kept(words="--replications 2")

    def test_of_another_profile_under_the_same_name(self, kept, world) -> None:
        before = (world.folder / "p.json").read_text()
        world.write("p.json", before.replace("0.4", "0.3"))
        assert (world.folder / "p.json").read_text() != before
        kept("p.json", "changed")

    def test_of_another_version(self, store, kept) -> None:
        with sqlite3.connect(store) as db:
            assert db.execute("UPDATE meta SET value = '99.0.0' WHERE name = 'meshwright'").rowcount == 1
        db.close()
        kept("99.0.0")

    @pytest.mark.parametrize("content", [b"not a database at all", b"SQLite format 3\0" + bytes(200)])
    def test_that_is_no_store(self, content: bytes, store, kept) -> None:
        store.write_bytes(content)
        kept()

    def test_of_somebody_elses(self, store, kept) -> None:
        store.unlink()
        with sqlite3.connect(store) as db:
            db.execute("CREATE TABLE mine (x)")
        db.close()
        kept()
