"""What is kept of the last run of each figure: written by --remember, read by --list."""

from __future__ import annotations

import json
import multiprocessing
import re
import time
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path

import pytest
from meshwright import __version__
from meshwright.cli import run
from meshwright.errors import InputError
from meshwright.reproduce import FIGURES, Expectation, at_least, verdicts
from meshwright.reproduce.report import Report
from meshwright.reproduce.verdicts import KEPT, Judged, Kept, changes, cost, last, load

ONE = Kept(
    "2026-11-01",
    "0.1.0",
    0,
    (Judged("fast", "finding", "holds", "2×"), Judged("as printed", "given", "holds", "1")),
    "run",
    12.4,
)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "data" / "verdicts.json"
    monkeypatch.setattr(verdicts, "KEPT", path)
    for function in (verdicts.load, verdicts.remember):
        monkeypatch.setattr(function, "__defaults__", (path,))
    return path


def test_what_is_shipped_is_of_figures_that_there_are() -> None:
    found = load(KEPT)
    assert set(found) <= set(FIGURES)
    assert all(one.claims for runs in found.values() for one in runs.values())


def test_a_run_is_remembered_and_listed(kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "alpaserve/fig01", "--list"]) == 0
    assert "not run" in capsys.readouterr().out
    make = ["reproduce", "alpaserve/4.1", "--fast", "--remember", "--out", str(tmp_path / "out")]
    assert run(make) == 0
    found = load(kept)["alpaserve/fig01"]["fast"]
    assert (found.date, found.meshwright, found.seed) == (date.today().isoformat(), __version__, 0)
    assert [claim.verdict for claim in found.claims] == ["holds"] * 2
    assert found.verdicts == {}  # both are arithmetic
    assert found.cpu_s is not None
    capsys.readouterr()
    assert run(["reproduce", "alpaserve/fig01", "--list", "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)
    assert row["verdict"] == f"0 of 0 hold, 2 not counted (fast, {found.date}, {__version__}; {found.source})"
    assert re.fullmatch("run( at [0-9a-f]{7,})?", found.source)
    assert row["fast"].endswith(" s")
    assert (row["name"], row["thesis"], row["full"]) == ("alpaserve/fig01", "alpaserve/4.1", "seconds")


def test_remembering_keeps_what_is_there(kept: Path, tmp_path: Path) -> None:
    kept.parent.mkdir()
    kept.write_text(json.dumps({"vllm/fig12": {"full": asdict(ONE)}, "alpaserve/fig01": {"full": asdict(ONE)}}))
    assert run(["reproduce", "alpaserve/fig01", "--fast", "--remember", "--out", str(tmp_path)]) == 0
    found = load(kept)
    assert found["vllm/fig12"] == {"full": ONE}
    assert found["alpaserve/fig01"]["full"] == ONE
    assert set(found["alpaserve/fig01"]) == {"fast", "full"}


def test_runs_beside_each_other_lose_nothing(tmp_path: Path) -> None:
    """Without turns the two end with a few of the twenty figures: each writes what it had read before."""
    path, names = tmp_path / "data" / "verdicts.json", list(FIGURES)[:20]
    context = multiprocessing.get_context("spawn")
    runs = [context.Process(target=keep_all, args=(path, some)) for some in (names[::2], names[1::2])]
    for one in runs:
        one.start()
    for one in runs:
        one.join()
    assert [one.exitcode for one in runs] == [0, 0]
    assert list(load(path)) == names
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def keep_all(path: Path, names: list[str]) -> None:
    """In a process: figures kept one after the other, each slowly written."""
    write = verdicts.write_text

    def slowly(to: Path, text: str) -> Path:
        time.sleep(0.03)
        return write(to, text)

    verdicts.write_text = slowly
    for name in names:
        report = Report(name, name, True, 0, (Expectation(name, "§1", "2×", at_least(2.0)).judge(2.5),), {}, ())
        verdicts.remember([report], path)


@pytest.mark.parametrize("text", ["[]", "{", '{"vllm/fig12": {"full": {}}}', '{"vllm/fig12": 3}'])
def test_a_broken_file_is_one_line(kept: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    kept.parent.mkdir()
    kept.write_text(text)
    assert run(["reproduce", "--list"]) == 2
    error = capsys.readouterr().err
    assert str(kept) in error
    assert len(error.strip().splitlines()) == 1
    with pytest.raises(InputError, match="delete the file"):
        load(kept)


@pytest.mark.parametrize(
    "bad", [{"seed": -1}, {"source": ""}, {"cpu_s": float("nan")}, {"cpu_s": -1.0}, {"date": "today"}]
)
def test_a_record_is_checked(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r">= 0|isoformat|says where it is from"):
        replace(ONE, **bad)


def test_the_latest_counts_and_the_full_one_of_a_day() -> None:
    older = replace(ONE, date="2026-10-31")
    assert last({}) is None
    assert last({"fast": ONE, "full": older}) == ("fast", ONE)
    assert last({"fast": ONE, "full": ONE}) == ("full", ONE)


def test_measured_costs_come_before_classes() -> None:
    figure = FIGURES["vllm/fig12"]
    assert [cost(figure, mode, {}) for mode in ("fast", "full")] == ["seconds", "minutes"]
    for seconds, said in ((0.2, "1 s"), (12.4, "12 s"), (600.0, "10 min"), (7200.0, "2.0 h"), (None, "minutes")):
        assert cost(figure, "full", {"full": replace(ONE, cpu_s=seconds)}) == said


def test_nothing_is_made_where_nothing_can_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert run(["reproduce", "alpaserve/fig01", "--fast", "--out", str(tmp_path / "file")]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_what_is_no_finding_is_not_counted() -> None:
    assert str(ONE) == "1 of 1 hold, 1 not counted"
    with pytest.raises(ValueError, match="unknown kind"):
        Judged("fast", "guess", "holds", "2×")  # pyright: ignore[reportArgumentType]


def test_a_verdict_that_changes_is_a_line() -> None:
    fast, flat = (Expectation(text, "§1", "2×", at_least(2.0), "{:.1f}×") for text in ("fast", "flat"))
    claims = [fast.judge(2.5), flat.judge(1.0)]
    same = replace(ONE, claims=tuple(Judged(c.text, c.kind, c.verdict, c.ours) for c in claims))
    assert changes("a/fig1", claims, same) == ()
    assert len(changes("a/fig1", claims, None)) == 2
    slower = [replace(claim, verdict="partly", timed=True) for claim in claims]
    assert changes("a/fig1", slower, same) == ()  # seconds of another machine
    assert len(changes("a/fig1", slower, None)) == 2
    worse = replace(ONE, claims=(Judged("fast", "finding", "partly", ""), Judged("old", "finding", "holds", "")))
    assert changes("a/fig1", claims, worse) == (
        "a/fig1: partly -> holds: fast (paper 2×, ours 2.5×)",
        "a/fig1: new -> does not hold: flat (paper 2×, ours 1.0×)",
        "a/fig1: holds -> gone: old",
    )
