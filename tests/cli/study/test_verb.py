"""`meshwright study` from end to end: what it prints and leaves, exit codes, interrupts, going on."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from meshwright.cli import run

STUDY = """study: 1
name: tiny
cluster: {devices: 2}
models: [a, b]
profile: p.json
workload: {rate: 2, cv: 2, duration: 30, slo: 2}
planners: [alpaserve, selective-replication]
axes: {devices: [1, 2], rate: [1, 2]}
replications: 2
"""

PLANNER = '''"""Two groups of one device; raises or takes its time if the environment says so."""
import os
import time
from meshwright.errors import InfeasibleError
from meshwright.simulator import Group, ParallelConfig, Placement

def slow(problem):
    time.sleep(float(os.environ.get("SLOW_S", "0")))
    if os.environ.get("BREAK") and problem.cluster.n_devices == 2:
        raise RuntimeError("the moon is full")
    if problem.cluster.n_devices > 2:
        raise InfeasibleError("too many devices; use two")
    one = Group(ParallelConfig(1, 1), ["a", "b"])
    return problem.plan(Placement([one] * problem.cluster.n_devices), name="slow")
'''


@pytest.fixture
def folder(world):
    world.write("s.yaml", STUDY)
    world.write("mine.py", PLANNER)
    return world.folder


def said(capsys: pytest.CaptureFixture[str], words: str, code: int = 0) -> tuple[str, str]:
    found = run(words.split())
    out, err = capsys.readouterr()
    assert found == code, (found, out, err)
    return out, err


def contents(store: Path) -> bytes:
    return store.read_bytes()


def test_a_study_leaves_its_folder_and_says_what_it_is_and_found(folder: Path, capsys) -> None:
    out, err = said(capsys, "study s.yaml --workers 1")
    for part in (
        "tiny (serving world)",
        "cluster.devices: 1, 2",
        "4 combinations x 2 planners x 2 replications = 16 points",
    ):
        assert part in out
    rows = [line.split() for line in out.splitlines() if "alpaserve" in line and "planners" not in line]
    assert {(row[0], row[1]) for row in rows} == {("1", "1"), ("1", "2"), ("2", "1"), ("2", "2")}
    assert re.search(r"attainment \(%\)", out)
    assert "s-out/report.html" in out
    assert "16 of 16 points: p99" in err
    assert not re.search(r"\d s\b.*to go", err), "no progress where it takes under two seconds"
    names = {p.name for p in (folder / "s-out").iterdir()}
    assert {"store.sqlite", "points.csv", "summary.csv", "figures", "report.html", "run.json"} <= names
    assert not [n for n in names if n.startswith(".")], "no half-written file"
    facts = json.loads((folder / "s-out/run.json").read_text())
    assert [(r["evaluated"], r["kept"]) for r in facts["runs"]] == [(16, 0)]
    assert facts["versions"]["meshwright"]


def test_the_same_command_again_evaluates_nothing_and_makes_the_report_anew(folder: Path, capsys) -> None:
    said(capsys, "study s.yaml --workers 1")
    store, page = folder / "s-out/store.sqlite", folder / "s-out/report.html"
    before = contents(store)
    page.unlink()
    said(capsys, "study s.yaml --workers 1")
    assert contents(store) == before
    assert page.stat().st_size > 1000
    runs = json.loads((folder / "s-out/run.json").read_text())["runs"]
    assert [(r["evaluated"], r["kept"]) for r in runs] == [(16, 0), (0, 16)]


def test_without_a_report_the_store_is_the_same(folder: Path, capsys) -> None:
    said(capsys, "study s.yaml --workers 1 --out one")
    said(capsys, "study s.yaml --workers 2 --out two --no-report")
    assert contents(folder / "one/store.sqlite") == contents(folder / "two/store.sqlite")
    assert not (folder / "two/report.html").exists()


def test_json_is_one_document(folder: Path, capsys) -> None:
    out, _ = said(capsys, "study s.yaml --workers 1 --json --planner selective-replication --replications 1")
    document = json.loads(out)
    assert (document["points"], document["failed"], len(document["rows"])) == (4, 0, 4)
    assert {row["planner"] for row in document["rows"]} == {"selective-replication"}
    assert all(Path(path).exists() for path in document["files"])
    assert json.loads(said(capsys, "study s.yaml --dry-run --json")[0])["points"] == 16


def test_dry_run_touches_nothing(folder: Path, capsys) -> None:
    out, _ = said(capsys, "study s.yaml --dry-run")
    assert "16 points" in out
    assert not (folder / "s-out").exists()


def test_failed_points_are_exit_1_and_are_retried_only_if_asked(folder: Path, capsys, monkeypatch) -> None:
    words = "study s.yaml --workers 1 --no-report --planner alpaserve --planner mine.py:slow"
    monkeypatch.setenv("BREAK", "1")
    _, err = said(capsys, words, code=1)
    assert "note: 4 of 16 points failed: " in err
    assert "the moon is full" in err
    last = err.splitlines()[-1]
    assert last.startswith("meshwright: 4 of 16 points failed")
    assert "--retry-failed" in last
    monkeypatch.delenv("BREAK")
    said(capsys, words, code=1)
    out, _ = said(capsys, words + " --retry-failed")
    assert "mine.py:slow" in out
    runs = json.loads((folder / "s-out/run.json").read_text())["runs"]
    assert [(r["evaluated"], r["failed"]) for r in runs] == [(16, 4), (0, 4), (4, 0)]


def test_no_answer_in_the_range_is_exit_3_and_everything_is_written(folder: Path, capsys) -> None:
    base = STUDY.replace("axes: {devices: [1, 2], rate: [1, 2]}\n", "")
    (folder / "q.yaml").write_text(base + "question: {find: fewest devices, target: 99 %, high: 1}\n")
    out, err = said(capsys, "study q.yaml --workers 1", code=3)
    assert err.splitlines()[-1].startswith("meshwright: ")
    assert (folder / "q-out/report.html").exists()
    (folder / "r.yaml").write_text(base + "question: {find: fewest devices, target: 50 %, high: 4}\n")
    out, _ = said(capsys, "study r.yaml --workers 1")
    assert sum("device" in line and "attain" in line for line in out.splitlines()) >= 2, out


def test_points_that_all_have_no_plan_are_exit_3(folder: Path, capsys) -> None:
    (folder / "s.yaml").write_text(STUDY.replace("devices: [1, 2]", "devices: [3, 4]"))
    _, err = said(capsys, "study s.yaml --workers 1 --no-report --planner mine.py:slow", code=3)
    assert "too many devices; use two" in err.splitlines()[-1]


def points_in(store: Path) -> int:
    try:
        db = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
        try:
            return db.execute("SELECT count(*) FROM points").fetchone()[0]
        finally:
            db.close()
    except sqlite3.Error:
        return 0


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_keeps_what_is_done_and_the_same_command_goes_on(workers: int, folder: Path) -> None:
    command = [sys.executable, "-m", "meshwright", "study", "s.yaml", "--planner", "mine.py:slow", "--no-report"]
    command += ["--replications", "10", "--workers", str(workers), "--out"]
    slow, quick = os.environ | {"SLOW_S": "0.25"}, os.environ | {"SLOW_S": "0"}
    process = subprocess.Popen(
        [*command, "o"], cwd=folder, env=slow, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    while points_in(folder / "o/store.sqlite") < 5 and process.poll() is None:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    last = err.splitlines()[-1]
    kept = points_in(folder / "o/store.sqlite")
    assert last == f"meshwright: interrupted; {kept} of 40 points kept; the same command goes on from there"
    assert 5 <= kept < 40
    assert "Traceback" not in err
    for out in ("o", "fresh"):
        words = [*command, out, "--workers", "1"]
        subprocess.run(words, cwd=folder, env=quick, check=True, capture_output=True)
    assert contents(folder / "o/store.sqlite") == contents(folder / "fresh/store.sqlite")
    runs = json.loads((folder / "o/run.json").read_text())["runs"]
    assert (runs[-1]["kept"], runs[-1]["evaluated"]) == (kept, 40 - kept)


def test_progress_elsewhere_than_on_a_terminal_is_a_line_now_and_then(folder: Path) -> None:
    command = [sys.executable, "-m", "meshwright", "study", "s.yaml", "--planner", "mine.py:slow", "--no-report"]
    done = subprocess.run(
        [*command, "--workers", "1", "--json"], cwd=folder, env=os.environ | {"SLOW_S": "0.6"}, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    lines = [line for line in done.stderr.splitlines() if not line.startswith("note")]
    assert sum(bool(re.fullmatch(r"8 points: about [\d.]+ s on 1 process", line)) for line in lines) == 1, lines
    json.loads(done.stdout)


def test_an_interrupt_while_the_report_is_written_leaves_whole_files(folder: Path, capsys, monkeypatch) -> None:
    from meshwright.studies import report

    said(capsys, "study s.yaml --workers 1")
    page = (folder / "s-out/report.html").read_bytes()

    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(report, "write", stopped)
    _, err = said(capsys, "study s.yaml --workers 1", code=130)
    assert err == "meshwright: interrupted; every point is kept; the same command writes the report\n"
    assert (folder / "s-out/report.html").read_bytes() == page
