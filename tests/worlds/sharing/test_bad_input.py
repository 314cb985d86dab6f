"""Every slip in a case file or on the command line is one clear line and exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest
from meshwright.cli import run

RIGHT = {
    "world": "sharing",
    "cluster": "{machines: [{gpus: 4, count: 2}]}",
    "apps": "[{name: a, jobs: [{work: 100, gpus: 2}]}]",
    "planners": "[fifo]",
}


def _text(**changed: str) -> str:
    return "".join(f"{key}: {value}\n" for key, value in (RIGHT | changed).items() if value)


def _refused(capsys: pytest.CaptureFixture[str], *words: str, code: int = 2) -> list[str]:
    assert run(["simulate", *words]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    assert "internal error" not in err
    return err.splitlines()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "right.yaml").write_text(_text())
    return tmp_path


def test_the_right_file_is_taken(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "right.yaml", "--engine", "simpy"]) == 0


def _with(policy: str, options: str) -> dict[str, str]:
    return {"planners": f"[{{name: {policy}, options: {{{options}}}}}]"}


@pytest.mark.parametrize(
    ("changed", "parts"),
    [
        ({"apps": "[{name: a, jobs: [{work: 100, gpus: 16, gang: 9}]}]"}, ["apps[0].jobs[0].gang", "9", "8 GPUs"]),
        ({"apps": "[{name: a, jobs: [{work: -5}]}]"}, ["apps[0].jobs[0].work", "greater than 0", "-5"]),
        ({"apps": "[{name: a, jobs: [{work: 0 GPU h}]}]"}, ["apps[0].jobs[0].work", "greater than 0", "0 GPU h"]),
        ({"apps": "[{name: a, jobs: [{work: ten}]}]"}, ["apps[0].jobs[0].work", "GPU seconds", "'ten'"]),
        ({"apps": "[{name: a, jobs: [{work: .nan}]}]"}, ["apps[0].jobs[0].work", "finite number"]),
        ({"apps": "[{name: a, jobs: [{work: 9, gpus: 2, gang: 3}]}]"}, ["apps[0].jobs[0]", "gang", "raise gpus"]),
        ({"apps": "[{name: a, kind: halving, jobs: [{}]}]"}, ["apps[0]", "budget: is missing"]),
        ({"apps": "[{name: a, kind: halving, budget: 3, jobs: [{count: 4}]}]"}, ["apps[0]", "raise it to"]),
        ({"apps": "[{name: a, jobs: [{work: 1}]}, {name: a, jobs: [{work: 1}]}]"}, ["apps[1].name", "'a'"]),
        ({"apps": "[{name: a, model: VGG-16, jobs: [{work: 1}]}]"}, ["apps[0].model", "did you mean 'VGG16'?"]),
        ({"apps": ""}, ["give one of apps", "workload"]),
        ({"beliefs": "{slowdown: guessed}"}, ["beliefs.slowdown", "'known', 'assumed' or 'learned'", "'guessed'"]),
        ({"beliefs": "{least: 0}"}, ["beliefs.least", "greater than or equal to 1", "0"]),
        ({"beliefs": "{spread: 1}"}, ["beliefs.spread", "less than 1", "1"]),
        (_with("themis", "fairness: 1.2"), ["planners[0].options.fairness", "less than or equal to 1", "1.2"]),
        (_with("themis", "fairness: -10 %"), ["planners[0].options.fairness", "-10 %"]),
        (_with("themis", "rounding: up"), ["options.rounding", "'random', 'nearest' or 'floor'", "'up'"]),
        (_with("themis", "farness: 1"), ["options.farness", "unknown option", "did you mean 'fairness'?"]),
        (_with("themis", "placement: near"), ["options.placement", "is of the policies but themis"]),
        (_with("fifo", "fairness: 0.5"), ["options.fairness", "is of themis", "fifo knows placement"]),
        (_with("fifo", "placement: far"), ["options.placement", "'near' or 'blind'", "'far'"]),
        ({"planners": "[themiss]"}, ["planners[0]", "unknown sharing policy 'themiss'", "did you mean 'themis'?"]),
        ({"planners": "[fifo, fifo]"}, ["planners", "twice"]),
        ({"planners": "[fifo, {name: drf, label: fifo}]"}, ["planners", "twice"]),
        ({"planners": "[]"}, ["planners", "should be a list of names", "got []"]),
        ({"policies": "[fifo]"}, ["policies", "unknown key"]),
        ({"auction": "{fairness: 0.5}"}, ["auction", "unknown key"]),
        ({"lease": "0"}, ["lease", "greater than 0"]),
        ({"lease": "10 minutes"}, ["lease", "10 min", "'10 minutes'"]),
        ({"overheads": "{checkpoint: -1}"}, ["overheads.checkpoint", "greater than or equal to 0", "-1"]),
        ({"cluster": "{machines: []}"}, ["cluster", "give one of preset, machines and devices"]),
        ({"cluster": "{devices: 12}"}, ["cluster", "12", "whole machines of 8"]),
        ({"cluster": "{machines: [{gpus: 4, gpus_per_slot: 3}]}"}, ["cluster.machines[0]", "divisor"]),
        ({"cluster": "{preset: themis-testbed, contention: 50}"}, ["cluster", "contended"]),
        ({"failures": "{machines: [{machine: 2, at: 5, repair: 5}]}"}, ["failures.machines[0].machine", "0 … 1"]),
        ({"failures": "{apps: [{app: z, at: 5}]}"}, ["failures.apps[0].app", "'z'"]),
        ({"max_time": "10"}, ["app 'a'", "has not ended by 10 s under fifo", "raise max_time"]),
        ({"leese": "3"}, ["leese", "unknown key; did you mean 'lease'?"]),
        ({"world": "shering"}, ["world", "unknown world", "did you mean 'sharing'?"]),
        ({"planner": "{name: fifo}"}, ["planner", "planners"]),
        ({"seed": "-1"}, ["seed", "greater than or equal to 0"]),
    ],
    ids=lambda value: "" if isinstance(value, list) else "".join(f"{k}={v[:40]}" for k, v in value.items()),
)  # fmt: skip
def test_a_slip_in_the_file_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], changed: dict[str, str], parts: list[str]
) -> None:
    (folder / "w.yaml").write_text(_text(**changed))
    lines = _refused(capsys, "w.yaml", "--engine", "simpy")
    assert len(lines) == 1, lines
    assert lines[0].startswith("meshwright: ")
    for part in parts:
        assert part in lines[0]
    assert "w.yaml" in lines[0]


def test_all_slips_are_told_at_once_with_their_lines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "w.yaml").write_text(_text(estimates="slow", lease="-1", planners="[nobody]"))
    lines = _refused(capsys, "w.yaml")
    assert [line.removeprefix("meshwright: ").split(": ")[:2] for line in lines] == [
        ["w.yaml:4", "planners[0].name"], ["w.yaml:5", "estimates"], ["w.yaml:6", "lease"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("nowhere.yaml", ["nowhere.yaml", "cannot be read"]),
        ("right.yaml --planner themis,gandivva", ["planner", "'gandivva'", "did you mean 'gandiva'?"]),
        ("right.yaml --planner fifo,fifo", ["--planner", "each once"]),
        ("right.yaml --planner themis -o fairness=1.5", ["fairness", "less than or equal to 1", "1.5"]),
        ("right.yaml --planner themis -o fairness=nan", ["meshwright: planner.options.fairness", "0.99", "nan"]),
        ("right.yaml -o fairness=0.5", ["fairness", "is of themis"]),
        ("right.yaml --planner themis -o farness=0.5", ["farness", "did you mean 'fairness'?"]),
        ("right.yaml --lease 0", ["lease", "greater than 0", "got 0"]),
        ("right.yaml --lease 1e-300 --planner themis", ["lease", "0.001 s or more"]),  # the clock would stand still
        ("right.yaml --lease inf", ["meshwright: lease", "seconds", "inf"]),
        ("right.yaml --lease 10minutes", ["lease", "10 min", "'10minutes'"]),
        ("right.yaml --seed -1", ["seed", "greater than or equal to 0"]),
        ("right.yaml --seed 18446744073709551616 --planner themis", ["seed", "whole number"]),
        ("right.yaml --engine fast", ["engine", "'fast'"]),
        ("right.yaml --planner fifo -o placement=far", ["placement", "'near' or 'blind'", "'far'"]),
        ("right.yaml --leese 3", ["--leese", "--lease"]),
        ("right.yaml --set leese=3", ["no field 'leese'", "did you mean 'lease'?"]),
        ("right.yaml --bids right.yaml", ["--bids", "neither case nor plan"]),
        ("right.yaml --timeline t.txt", ["timeline", ".png, .svg, .csv, .json", "t.txt"]),
        ("right.yaml --timeline t.csv --engine compiled", ["timeline", "compiled", "leave engine out"]),
        ("right.yaml --timeline right.yaml/t.csv", ["right.yaml/t.csv", "folder"]),
        ("right.yaml --out r.txt", ["--out", ".json or .csv", "r.txt"]),
        ("right.yaml --out right.yaml/r.json", ["right.yaml/r.json", "folder"]),
    ],
)
def test_a_slip_on_the_command_line_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], words: str, parts: list[str]
) -> None:
    lines = _refused(capsys, *words.split())
    assert len(lines) == 1, lines
    for part in parts:
        assert part in lines[0]
    assert sorted(p.name for p in folder.iterdir()) == ["right.yaml"]


BIDS = {
    "world": "sharing",
    "cluster": "{machines: [{gpus: 4}]}",
    "bids": "[{app: a, rows: [{gpus: 0, rho: unbounded}, {gpus: 4, rho: 1}]}]",
}


def _bids(rows: str) -> dict[str, str]:
    return {"bids": f"[{{app: a, rows: [{rows}]}}]"}


@pytest.mark.parametrize(
    ("changed", "parts"),
    [
        (_bids("{gpus: 4, rho: 1}"), ["bids[0]", "missing the empty allocation", "{gpus: 0, rho: ...}"]),
        (_bids("{gpus: 0, rho: .nan}"), ["bids[0].rows[0].rho", "finite number", ".nan"]),
        (_bids("{gpus: 0, rho: nan}"), ["bids[0].rows[0].rho", "number", "unbounded", "'nan'"]),
        (_bids("{gpus: 0, rho: 0}"), ["bids[0].rows[0]", "rho: should be greater than 0"]),
        (_bids("{gpus: 0, rho: 2}, {gpus: 5, rho: 1}"), ["bids[0].rows[1].gpus", "4 GPUs", "5"]),
        (_bids("{gpus: 0, rho: 2}, {gpus: -1, rho: 1}"), ["bids[0].rows[1].gpus", "greater than or equal to 0", "-1"]),
        (_bids("{gpus: 0, rho: 2}, {gpus: 2, rho: 1, place: machines}"), ["bids[0].rows[1]", "group", "1 … 2"]),
        ({"bids": "[{app: a, rows: &r [{gpus: 0, rho: 1}]}, {app: a, rows: *r}]"}, ["bids[1].app", "twice"]),
        ({"offered": "[0, 4]"}, ["offered", "GPU 4", "0 … 3"]),
        ({"bids": "[]"}, ["bids", "at least one"]),
    ],
    ids=lambda value: "" if isinstance(value, list) else next(iter(value.values()))[:50],
)  # fmt: skip
def test_a_slip_in_bids_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], changed: dict[str, str], parts: list[str]
) -> None:
    (folder / "b.yaml").write_text("".join(f"{key}: {value}\n" for key, value in (BIDS | changed).items()))
    lines = _refused(capsys, "sharing", "--bids", "b.yaml")
    assert len(lines) == 1, lines
    assert "b.yaml" in lines[0]
    for part in parts:
        assert part in lines[0]


def test_options_of_cases_do_not_go_with_bids(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "b.yaml").write_text("".join(f"{key}: {value}\n" for key, value in BIDS.items()))
    (line,) = _refused(capsys, "sharing", "--bids", "b.yaml", "--lease", "60")
    assert "--bids: goes with neither case nor plan" in line
    assert "leave lease out" in line
    (line,) = _refused(capsys, "sharing", "--bids", "b.yaml", "--timeline", "t.csv")
    assert "timeline: is for cases, and b.yaml holds bids" in line


def test_bids_are_no_case(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "b.yaml").write_text("".join(f"{key}: {value}\n" for key, value in BIDS.items()))
    for verb in ("simulate", "plan", "run", "export"):
        assert run([verb, "b.yaml"]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.endswith("b.yaml: holds bids, and is no case: meshwright simulate sharing --bids b.yaml")
